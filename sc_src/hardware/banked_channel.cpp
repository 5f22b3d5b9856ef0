#include "banked_channel.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tilewright {
namespace {

// A write waits no longer than this many cycles for its queue to fill while reads go first.
constexpr std::int64_t kLongestWriteWait = 2048;

}  // namespace

BankedChannel::BankedChannel(const MemoryPart& part, StretchMemory* stretches)
    : part_(&part),
      stretches_(stretches),
      banks_(static_cast<std::size_t>(part.pseudo * part.groups * part.banks)),
      seen_(2 * banks_.size()),
      groups_(static_cast<std::size_t>(part.pseudo * part.groups)),
      pseudos_(static_cast<std::size_t>(part.pseudo)),
      refresh_due_(part.timing.refi > 0 ? part.timing.refi : kIdle),
      high_(static_cast<std::size_t>(
          std::max(1.0, std::ceil(part.drain_high * static_cast<double>(part.write_queue))))),
      low_(static_cast<std::size_t>(part.drain_low * static_cast<double>(part.write_queue))) {
  for (const AddressField field : part.mapping) {
    if (field == AddressField::channel) continue;  // job addresses are the channel's own
    const std::int64_t of = field == AddressField::column   ? part.columns
                            : field == AddressField::pseudo ? part.pseudo
                            : field == AddressField::group  ? part.groups
                            : field == AddressField::bank   ? part.banks
                                                            : part.rows;
    int shift = 0;
    while (std::int64_t{1} << shift < of) ++shift;
    fields_.push_back({field, of, std::int64_t{1} << shift == of ? shift : -1});
  }
  std::int64_t size = 1;
  bool above_column = false;
  int rank = 0;  // of the fields between column and row: pseudo, group, bank in this order
  bool circular = true;
  for (const AddressField field : part.mapping) {
    if (field == AddressField::channel) continue;
    if (field == AddressField::row) break;
    int of = 0;
    switch (field) {
      case AddressField::column:
        size *= part.columns;
        above_column = true;
        period_ = size;
        continue;
      case AddressField::pseudo:
        size *= part.pseudo;
        of = 1;
        break;
      case AddressField::group:
        size *= part.groups;
        of = 2;
        break;
      default:
        size *= part.banks;
        of = 3;
        break;
    }
    if (!above_column) continue;
    circular = circular && of > rank;
    rank = of;
  }
  below_row_ = size;
  // Without the circle the whole round of banks is the period; without columns below rows, none.
  if (!circular) period_ = size;
  if (!above_column) period_ = 0;
  reads_.reserve(static_cast<std::size_t>(part.read_queue));
  writes_.reserve(static_cast<std::size_t>(part.write_queue));
}

void BankedChannel::add(Cycle now, const BankedJob& job) {
  now_ = std::max(now_, now);
  recording_ = stretch_start_ = false;
  ++jobs_added_;
  std::uint32_t id = 0;
  if (free_.empty()) {
    id = static_cast<std::uint32_t>(jobs_.size());
    jobs_.emplace_back();
  } else {
    id = free_.back();
    free_.pop_back();
  }
  jobs_[id] = {job, job.end - job.next, -1};
  const auto flow = std::find_if(flows_.begin(), flows_.end(), [&](const Flow& f) {
    return f.requester == job.requester && f.write == job.write;
  });
  if (flow != flows_.end()) {
    flow->jobs.push_back(id);
  } else {
    // Its turn comes after that of all others.
    Flow added{job.requester, job.write, {id}, {}};
    place(added.next, job.next);
    flows_.insert(flows_.begin() + static_cast<std::ptrdiff_t>(turn_), std::move(added));
    if (flows_.size() > 1) ++turn_;
    ++flows_of_[job.write ? 1 : 0];
  }
  admit(now_);
}

void BankedChannel::place(Burst& burst, std::int64_t index) const {
  std::int64_t rest = index, pseudo = 0, group = 0, bank = 0, row = 0;
  for (const Field& f : fields_) {
    const std::int64_t above = f.shift >= 0 ? rest >> f.shift : rest / f.size;
    const std::int64_t at = rest - above * f.size;
    rest = above;
    switch (f.field) {
      case AddressField::pseudo:
        pseudo = at;
        break;
      case AddressField::group:
        group = at;
        break;
      case AddressField::bank:
        bank = at;
        break;
      case AddressField::row:
        row = at;
        break;
      case AddressField::column:
      case AddressField::channel:
        break;
    }
  }
  burst.index = index;
  burst.row = row;
  group += pseudo * part_->groups;
  burst.pseudo = static_cast<std::uint16_t>(pseudo);
  burst.group = static_cast<std::uint16_t>(group);
  burst.bank = static_cast<std::uint16_t>(group * part_->banks + bank);
}

void BankedChannel::open(std::size_t bank, std::int64_t row) {
  Bank& b = banks_[bank];
  b.row = row;
  const auto hits = [&](const std::vector<Burst>& queue) {
    return std::count_if(queue.begin(), queue.end(), [&](const Burst& burst) {
      return burst.bank == bank && burst.row == row;
    });
  };
  b.hits[0] = hits(reads_);
  b.hits[1] = hits(writes_);
}

void BankedChannel::close(std::size_t bank) {
  banks_[bank].row = -1;
  banks_[bank].hits[0] = banks_[bank].hits[1] = 0;
}

/// Flows of reads and of writes take equal turns, writes as many at a time as their queue holds.
/// Else a stream of writes, which fills its queue as fast as it is drained, would keep all reads
/// out.
void BankedChannel::count_turn(bool write) {
  if (flows_of_[0] == 0 || flows_of_[1] == 0) {
    ahead_ = 0;
    held_ = false;
    return;
  }
  ahead_ += write ? flows_of_[0] : -flows_of_[1];
  if (ahead_ >= part_->write_queue * flows_of_[0]) held_ = true;
  if (ahead_ <= 0) held_ = false;
}

/// Takes bursts into the queues, one per flow in turn, while there is room. A flow's bursts enter
/// in order.
void BankedChannel::admit(Cycle ready) {
  std::size_t blocked = 0;
  while (blocked < flows_.size()) {
    Flow& flow = flows_[turn_];
    std::vector<Burst>& queue = flow.write ? writes_ : reads_;
    const std::int64_t room = flow.write ? part_->write_queue : part_->read_queue;
    Bank& bank = banks_[flow.next.bank];
    if (static_cast<std::int64_t>(queue.size()) >= room || held(flow) ||
        (!flow.write && bank.reads >= part_->bank_queue)) {
      ++blocked;
      if (++turn_ == flows_.size()) turn_ = 0;
      continue;
    }
    blocked = 0;
    count_turn(flow.write);
    if (!flow.write) ++bank.reads;
    if (bank.row == flow.next.row) ++bank.hits[flow.write ? 1 : 0];
    flow.next.order = order_++;
    flow.next.ready = ready;
    flow.next.job = flow.jobs.front();
    queue.push_back(flow.next);
    BankedJob& job = jobs_[flow.jobs.front()].job;
    if (++job.next == job.end) flow.jobs.pop_front();
    if (flow.jobs.empty()) {
      if (--flows_of_[flow.write ? 1 : 0] == 0) held_ = false;
      flows_.erase(flows_.begin() + static_cast<std::ptrdiff_t>(turn_));
      if (turn_ == flows_.size()) turn_ = 0;
    } else {
      place(flow.next, jobs_[flow.jobs.front()].job.next);
      if (++turn_ == flows_.size()) turn_ = 0;
    }
  }
}

/// The queue whose turn it is. Writes that have waited too long are drained to the last of them:
/// left half-way, reads could close the rows that they have opened, again and again.
std::vector<BankedChannel::Burst>& BankedChannel::active(Cycle at) {
  const bool late = !writes_.empty() && at - writes_.front().ready > kLongestWriteWait;
  if (draining_) {
    draining_ = !writes_.empty() && (writes_.size() > low_ || reads_.empty() || late);
  } else {
    draining_ = !writes_.empty() && (reads_.empty() || writes_.size() >= high_ || late);
  }
  return draining_ ? writes_ : reads_;
}

void BankedChannel::column(std::vector<Burst>& queue, std::size_t i, Cycle at) {
  const MemoryTiming& t = part_->timing;
  const Burst burst = queue[i];
  Bank& bank = banks_[burst.bank];
  Group& group = groups_[burst.group];
  Pseudo& pseudo = pseudos_[burst.pseudo];
  Job& job = jobs_[burst.job];
  if (!job.job.write) --bank.reads;
  --bank.hits[job.job.write ? 1 : 0];
  const Cycle pace = std::max(t.ccd_s, t.burst);
  Cycle data = 0;
  if (job.job.write) {
    data = at + t.cwl;
    bank.precharge = std::max(bank.precharge, data + t.burst + t.wr);
    pseudo.write = std::max(pseudo.write, at + pace);
    group.write = std::max(group.write, at + t.ccd_l_write);
    pseudo.read = std::max(pseudo.read, data + t.burst + t.wtr_s);
    group.read = std::max(group.read, data + t.burst + t.wtr_l);
  } else {
    data = at + t.cl;
    bank.precharge = std::max(bank.precharge, at + t.rtp);
    pseudo.read = std::max(pseudo.read, at + pace);
    group.read = std::max(group.read, at + t.ccd_l);
    pseudo.write = std::max(pseudo.write, at + t.read_to_write);
  }
  if (job.first < 0) job.first = data;
  ++bursts_;
  if (job.job.write) ++written_;
  queue.erase(queue.begin() + static_cast<std::ptrdiff_t>(i));
  if (--job.left == 0) {
    finished_.push_back({job.job.request, job.first, data + t.burst});
    free_.push_back(burst.job);
    recording_ = false;
  }
  admit(at + 1);
}

/// Closes every row and refreshes all banks.
void BankedChannel::refresh() {
  const MemoryTiming& t = part_->timing;
  Cycle at = std::max(refresh_due_, row_bus_);
  bool open = false;
  for (const Bank& b : banks_) {
    if (b.row >= 0) {
      open = true;
      at = std::max(at, b.precharge);
    }
  }
  if (open) {
    row_changed_ = at;
    at += t.rp;
  }
  for (const Bank& b : banks_) {
    if (b.row < 0) at = std::max(at, b.activate);
  }
  row_bus_ = at + 1;
  for (std::size_t b = 0; b < banks_.size(); ++b) {
    close(b);
    banks_[b].activate = std::max(banks_[b].activate, at + t.rfc);
  }
  refresh_due_ += t.refi;
  now_ = std::max(now_, at + t.rfc);
  end_record();
  begin_record();
}

/// Refreshes that fall into a time without work; all but the last two only close rows.
void BankedChannel::idle_until(Cycle until) {
  const MemoryTiming& t = part_->timing;
  if (refresh_due_ >= until) return;
  const Cycle past = (until - refresh_due_) / t.refi;
  if (past > 1) {
    row_changed_ = refresh_due_;
    for (std::size_t b = 0; b < banks_.size(); ++b) close(b);
    refresh_due_ += (past - 1) * t.refi;
  }
  while (refresh_due_ < until) {
    const Cycle before = now_;
    refresh();
    now_ = before;  // the refresh may still be going on at `until`: banks know
    recording_ = stretch_start_ = false;
  }
}

void BankedChannel::run(Cycle until, std::int64_t most) {
  const MemoryTiming& t = part_->timing;
  const std::int64_t last_step = most > 0 ? steps_ + most : std::numeric_limits<Cycle>::max();
  while (finished_.empty() && steps_ < last_step) {
    if (reads_.empty() && writes_.empty()) {
      if (until == kIdle) return;
      idle_until(until);
      now_ = std::max(now_, until);
      return;
    }
    if (skip(until)) continue;
    std::vector<Burst>& queue = active(now_);
    const bool write = draining_;
    // The command that can go first. Of bursts of one bank that hit its row the oldest can, and
    // of those that do not; ready times that are out of order are looked at.
    Cycle best_at = kIdle;
    Command best = Command::none;
    std::size_t best_i = 0;
    ++scan_;
    for (std::size_t i = 0; i < queue.size(); ++i) {
      const Burst& b = queue[i];
      const Bank& bank = banks_[b.bank];
      const bool hit = bank.row == b.row;
      if (!hit && bank.hits[write ? 1 : 0] > 0) continue;  // its row stays open
      Seen& seen = seen_[2u * b.bank + (hit ? 1 : 0)];
      if (seen.scan == scan_ && seen.ready <= b.ready) continue;
      seen = {scan_, b.ready};
      const Group& group = groups_[b.group];
      const Pseudo& pseudo = pseudos_[b.pseudo];
      Cycle at = b.ready;
      Command c = Command::none;
      if (hit) {
        c = Command::column;
        at = std::max({at, column_bus_,
                       write ? std::max({bank.write, group.write, pseudo.write})
                             : std::max({bank.read, group.read, pseudo.read})});
      } else if (bank.row < 0) {
        c = Command::activate;
        at = std::max({at, row_bus_, bank.activate, group.activate, pseudo.activate});
        const Cycle fourth = pseudo.window[pseudo.window_at];
        if (fourth >= 0) at = std::max(at, fourth + t.faw);
      } else {
        c = Command::precharge;
        at = std::max({at, row_bus_, bank.precharge});
      }
      if (at < best_at || (at == best_at && c == Command::column && best != Command::column)) {
        best_at = at;
        best = c;
        best_i = i;
      }
    }
    if (best_at >= refresh_due_) {
      if (std::max(refresh_due_, row_bus_) >= until) {
        now_ = std::max(now_, until);
        return;
      }
      ++steps_;
      refresh();
      continue;
    }
    if (best_at >= until) {
      now_ = std::max(now_, until);
      return;
    }
    ++steps_;
    stretch_start_ = false;
    now_ = std::max(now_, best_at);
    const Cycle bus = best_at + (best == Command::column     ? t.column_slot
                                 : best == Command::activate ? t.activate_slot
                                                             : t.precharge_slot);
    if (best != Command::column || !t.split_bus) row_bus_ = bus;
    if (best == Command::column || !t.split_bus) column_bus_ = bus;
    const Burst& b = queue[best_i];
    Bank& bank = banks_[b.bank];
    if (best != Command::column) row_changed_ = now_;
    switch (best) {
      case Command::activate:
        open(b.bank, b.row);
        bank.read = best_at + t.rcd_read;
        bank.write = best_at + t.rcd_write;
        bank.precharge = best_at + t.ras;
        bank.activate = best_at + t.ras + t.rp;
        groups_[b.group].activate = best_at + t.rrd_l;
        pseudos_[b.pseudo].activate = best_at + t.rrd_s;
        pseudos_[b.pseudo].window[pseudos_[b.pseudo].window_at] = best_at;
        pseudos_[b.pseudo].window_at = (pseudos_[b.pseudo].window_at + 1) % 4;
        break;
      case Command::precharge:
        close(b.bank);
        bank.activate = std::max(bank.activate, best_at + t.rp);
        break;
      default:
        column(queue, best_i, best_at);
        break;
    }
  }
}

/// True when every burst here and to come is of one job with more to admit.
bool BankedChannel::lone() const {
  if (flows_.size() != 1 || flows_.front().jobs.size() != 1) return false;
  const std::uint32_t id = flows_.front().jobs.front();
  const std::vector<Burst>& queue = jobs_[id].job.write ? writes_ : reads_;
  return jobs_[id].first >= 0 && reads_.size() + writes_.size() == queue.size() &&
         std::all_of(queue.begin(), queue.end(), [&](const Burst& b) { return b.job == id; });
}

/// The state at the end of a refresh as far as the future depends on it: every bank is closed, so
/// what counts is where in its row the stream is (banks are alike, and it visits them in a circle),
/// how far ahead of the queued bursts, and when the next refresh is due.
bool BankedChannel::stretch_key(StretchMemory::Key& key) const {
  if (stretches_ == nullptr || period_ == 0 || !lone()) return false;
  Cycle latest = std::max(row_bus_, column_bus_);
  for (const Pseudo& p : pseudos_) {
    latest = std::max({latest, p.activate, p.read, p.write});
    for (const Cycle c : p.window) latest = std::max(latest, c + part_->timing.faw);
  }
  for (const Group& g : groups_) latest = std::max({latest, g.activate, g.read, g.write});
  for (const Bank& b : banks_) latest = std::max(latest, b.activate);
  if (latest > now_) return false;
  const BankedJob& job = jobs_[flows_.front().jobs.front()].job;
  const std::vector<Burst>& queue = job.write ? writes_ : reads_;
  key.clear();
  key.push_back(job.write ? 1 : 0);
  key.push_back(job.next % period_);
  key.push_back(refresh_due_ - now_);
  for (const Burst& b : queue) key.push_back(job.next - b.index);
  return true;
}

/// Jumps over a stretch that is known and over before `until`.
bool BankedChannel::skip(Cycle until) {
  if (!stretch_start_) return false;
  const StretchMemory::Stretch* s = stretches_->find(record_key_);
  if (s == nullptr || now_ + s->cycles > until) return false;
  Job& job = jobs_[flows_.front().jobs.front()];
  std::vector<Burst>& queue = job.job.write ? writes_ : reads_;
  const std::int64_t next = job.job.next + s->bursts + static_cast<std::int64_t>(s->queue.size()) -
                            static_cast<std::int64_t>(queue.size());
  if (next >= job.job.end || wraps(job.job.next, next)) return false;
  job.left -= s->bursts;
  bursts_ += s->bursts;
  if (job.job.write) written_ += s->bursts;
  now_ += s->cycles;
  refresh_due_ += part_->timing.refi;
  for (Bank& b : banks_) {
    b.reads = 0;
    b.activate = now_;
  }
  const std::uint32_t id = flows_.front().jobs.front();
  queue.clear();
  for (const std::int64_t ahead : s->queue) {
    Burst burst{};
    place(burst, next - ahead);
    burst.order = order_++;
    burst.ready = now_;
    burst.job = id;
    if (!job.job.write) ++banks_[burst.bank].reads;
    queue.push_back(burst);
  }
  job.job.next = next;
  place(flows_.front().next, next);
  ++steps_;
  begin_record();
  return true;
}

/// True when rows count round between two bursts, where the circle of banks is broken.
bool BankedChannel::wraps(std::int64_t from, std::int64_t to) const {
  const std::int64_t rows = part_->rows * below_row_;
  return from / rows != to / rows || from % rows < 2 * below_row_;
}

void BankedChannel::begin_record() {
  recording_ = stretch_start_ = stretch_key(record_key_);
  record_bursts_ = bursts_;
  record_start_ = now_;
  if (recording_) record_next_ = jobs_[flows_.front().jobs.front()].job.next;
}

/// At the end of a refresh; now_ is up to date.
void BankedChannel::end_record() {
  if (!recording_ || !lone()) return;
  const BankedJob& job = jobs_[flows_.front().jobs.front()].job;
  if (wraps(record_next_, job.next) || stretches_->find(record_key_) != nullptr) return;
  StretchMemory::Stretch s;
  s.bursts = bursts_ - record_bursts_;
  s.cycles = now_ - record_start_;
  for (const Burst& b : job.write ? writes_ : reads_) s.queue.push_back(job.next - b.index);
  stretches_->insert(record_key_, std::move(s));
}

}  // namespace tilewright
