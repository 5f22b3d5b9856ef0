// Push and pop with a steady number of entries pending, against std::priority_queue.
#include <queue>
#include <random>
#include <vector>

#include <benchmark/benchmark.h>
#include <systemc>

#include <tilewright/hardware/radix_queue.h>

namespace {

using tilewright::RadixQueue;
using Entry = RadixQueue::Entry;

struct After {
  bool operator()(const Entry& a, const Entry& b) const { return RadixQueue::before(b, a); }
};
class Heap {
 public:
  void push(const Entry& e) { heap_.push(e); }
  Entry pop() {
    const Entry e = heap_.top();
    heap_.pop();
    return e;
  }

 private:
  std::priority_queue<Entry, std::vector<Entry>, After> heap_;
};

template <class Queue>
void hold(benchmark::State& state) {
  std::mt19937_64 random(1);
  std::vector<std::uint64_t> steps(4096);
  // Two kinds of delay, as in the model: a hop, and a message's or an operator's time.
  for (auto& s : steps) s = random() % 3 == 0 ? 20000 + random() % 100000 : 2000 + random() % 64;
  Queue queue;
  std::uint64_t key = 0;
  for (std::int64_t i = 0; i < state.range(0); ++i) queue.push({key++, steps[key % 4096]});
  for (auto _ : state) {
    const Entry e = queue.pop();
    queue.push({key++, e.time + steps[key % 4096]});
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_TEMPLATE(hold, RadixQueue)->Arg(32)->Arg(320)->Arg(10000)->Arg(100000);
BENCHMARK_TEMPLATE(hold, Heap)->Arg(32)->Arg(320)->Arg(10000)->Arg(100000);

}  // namespace

int sc_main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
