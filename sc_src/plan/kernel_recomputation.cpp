// What backward reads: kept, or made again, and by which operators.
#include "kernel_builder.h"

namespace tilewright {

void KernelBuilder::choose_rebuilt() {
  std::map<std::string, const Operator*> maker;
  std::set<std::string> masks;
  for (const Operator& op : block_.operators) {
    for (const Operand& out : op.outputs) {
      maker[out.tensor] = &op;
      if (out.storage == Storage::mask) masks.insert(out.tensor);
    }
  }
  const bool all = o_.dropped.all && block_.is_layer();
  std::set<std::string> dropped;
  for (const std::string& name : saved_) {
    if (name == input_) continue;
    if (maker.count(name) == 0) {  // what the sample brings
      kept_.insert(name);
      continue;
    }
    const bool drop = o_.dropped.all
                          ? all || masks.count(name) > 0
                          : o_.dropped.roles.test(static_cast<std::size_t>(maker.at(name)->role));
    (drop ? dropped : kept_).insert(name);
  }

  // From what is to be rebuilt back to what is kept. A mask is drawn again from its seed, and
  // needs no operator for that.
  std::vector<std::string> wanted;
  for (const std::string& name : dropped) {
    if (masks.count(name) == 0) wanted.push_back(name);
  }
  while (!wanted.empty()) {
    const auto made = maker.find(wanted.back());
    wanted.pop_back();
    if (made == maker.end() || !again_.insert(made->second->name).second) continue;
    for (const Operand& in : made->second->inputs) {
      if (kept_.count(in.tensor) == 0) wanted.push_back(in.tensor);
    }
  }
  if (all) {
    for (const Operator& op : block_.operators) again_.insert(op.name);
  }
  for (const std::string& name : dropped) {
    if (again_.count(maker.at(name)->name) > 0) {
      rebuilt_.insert(name);
    } else {
      saved_.erase(name);  // a mask, drawn again where it is read
    }
  }
}

}  // namespace tilewright
