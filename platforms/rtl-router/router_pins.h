// The pins of a verilated vc_router. For the sources that include the model alone.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <tilewright/base/error.h>
#include <tilewright/hardware/process.h>

#include "../verilated_pins.h"
#include "rtl_router.h"

namespace tilewright::rtl {

/// `Model` is the verilated class for Channels virtual channels of Depth flits.
template <class Model, unsigned Channels, unsigned Depth>
class RouterPins : public RtlRouter {
 public:
  RouterPins(const sc_core::sc_module_name& name, FlitNetwork& network, std::uint32_t tile)
      : RtlRouter(name), network_(network), tile_(tile), model_("rtl") {
    check();
    network.replace(tile, *this);
    model_.clk(clk_);
    model_.rst(rst_);
    model_.here_x(here_x_);
    model_.here_y(here_y_);
    model_.in_valid(in_valid_);
    model_.in_head(in_head_);
    model_.in_tail(in_tail_);
    model_.in_vc(in_vc_);
    model_.in_x(in_x_);
    model_.in_y(in_y_);
    model_.in_tag(in_tag_);
    model_.credit_in(credit_in_);
    model_.credit_in_vc(credit_in_vc_);
    model_.out_valid(out_valid_);
    model_.out_vc(out_vc_);
    model_.out_tag(out_tag_);
    model_.credit_out(credit_out_);
    model_.credit_out_vc(credit_out_vc_);
    TILEWRIGHT_HAS_PROCESS(RouterPins);
    SC_THREAD(tick);
  }
  ~RouterPins() override { model_.final(); }

  void trace(const std::string& path) override { trace_.begin(model_, path); }
  void end_trace() override { trace_.end(); }
  std::uint64_t flits() const override { return passed_; }

  // What the registers hold after an edge won the switch in the cycle before it; it is given one
  // cycle later.
  void give() override {
    constexpr unsigned kAge = 2;
    if (!ticked_) return;
    ticked_ = false;
    for (unsigned port = 0; port < kPorts; ++port) {
      if ((credit_out_.read() >> port & 1u) != 0) {
        network_.return_place(tile_, port, field(credit_out_vc_.read(), port, kVcBits), kAge);
      }
      if ((out_valid_.read() >> port & 1u) == 0) continue;
      const auto tag = field(out_tag_.read(), port, kTagBits);
      Flit flit = flits_[tag];
      free_.push_back(static_cast<std::uint32_t>(tag));
      flit.vc = field(out_vc_.read(), port, kVcBits) & 31u;
      --inside_;
      ++passed_;
      network_.depart(tile_, port, flit, kAge);
    }
  }

  void flit(unsigned port, const Flit& flit) override {
    std::uint32_t tag = static_cast<std::uint32_t>(flits_.size());
    if (free_.empty()) {
      flits_.push_back(flit);
    } else {
      tag = free_.back();
      free_.pop_back();
      flits_[tag] = flit;
    }
    const std::uint32_t to = network_.packet(flit.packet).destination, width = this->width();
    in_.valid |= 1u << port;
    in_.head |= flit.head << port;
    in_.tail |= flit.tail << port;
    in_.vc |= flit.vc << (port * kVcBits);
    in_.x |= (to % width) << (port * kXyBits);
    in_.y |= (to / width) << (port * kXyBits);
    in_.tag |= std::uint64_t{tag} << (port * kTagBits);
    ++inside_;
  }

  void credit(unsigned port, unsigned vc) override {
    in_.credit |= 1u << port;
    in_.credit_vc |= vc << (port * kVcBits);
  }

  bool clock() override {
    const bool needed = inside_ > 0 || in_.valid != 0 || in_.credit != 0;
    if (!needed) return false;
    due_ = ticked_ = true;
    due_event_.notify(sc_core::SC_ZERO_TIME);
    return true;
  }

 private:
  static constexpr unsigned kPorts = FlitNetwork::kPorts;
  static constexpr unsigned kVcBits = Channels <= 2 ? 1 : Channels <= 4 ? 2 : 3;
  static constexpr unsigned kXyBits = 6, kTagBits = 12;  // as in the RTL
  static_assert(Channels <= 8 && kPorts * Channels * Depth < (1u << kTagBits));

  template <class T>
  static unsigned field(T word, unsigned port, unsigned bits) {
    return static_cast<unsigned>(word >> (port * bits)) & ((1u << bits) - 1);
  }
  std::uint32_t width() const { return static_cast<std::uint32_t>(network_.config().width); }

  void check() const {
    const FlitConfig& c = network_.config();
    const auto require = [this](bool ok, const std::string& what, auto value, auto needed) {
      if (ok) return;
      throw InputError(fmt::format("{}: the network's {} is {}; the RTL router needs {}", name(),
                                   what, value, needed));
    };
    require(c.virtual_channels == Channels, "virtual_channels", c.virtual_channels, Channels);
    require(c.buffer_flits == Depth, "buffer_flits", c.buffer_flits, Depth);
    require(c.routing == "xy", "routing", c.routing, "xy");
    require(c.routing_delay == 0, "routing_delay", c.routing_delay, 0);
    require(c.vc_allocation_delay == 1, "vc_allocation_delay", c.vc_allocation_delay, 1);
    require(c.switch_allocation_delay == 1, "switch_allocation_delay", c.switch_allocation_delay,
            1);
    require(c.switch_traversal_delay == 1, "switch_traversal_delay", c.switch_traversal_delay, 1);
    require(!c.speculative, "speculative", c.speculative, false);
    require(!c.wait_for_tail_credit, "wait_for_tail_credit", c.wait_for_tail_credit, false);
    require(c.stall_probability == 0, "stall_probability", c.stall_probability, 0);
    constexpr int kMost = 1 << kXyBits;
    require(c.width <= kMost, "width", c.width, fmt::format("at most {}", kMost));
    require(c.height <= kMost, "height", c.height, fmt::format("at most {}", kMost));
  }

  // One edge of the clock for each cycle that needs it, with what has arrived for that cycle.
  void tick() {
    here_x_.write(tile_ % width());
    here_y_.write(tile_ / width());
    reset(clk_, rst_);
    const sc_core::sc_time half = sc_core::sc_time::from_value(network_.config().period / 2);
    for (;;) {
      while (!due_) wait(due_event_);
      due_ = false;
      in_valid_.write(in_.valid);
      in_head_.write(in_.head);
      in_tail_.write(in_.tail);
      in_vc_.write(in_.vc);
      in_x_.write(in_.x);
      in_y_.write(in_.y);
      in_tag_.write(in_.tag);
      credit_in_.write(in_.credit);
      credit_in_vc_.write(in_.credit_vc);
      in_ = Inputs();
      settle();
      clk_.write(true);
      wait(half);
      clk_.write(false);
    }
  }

  struct Inputs {
    std::uint32_t valid = 0, head = 0, tail = 0, vc = 0, x = 0, y = 0, credit = 0, credit_vc = 0;
    std::uint64_t tag = 0;
  };

  FlitNetwork& network_;
  std::uint32_t tile_;
  Inputs in_;                // arrived for the edge that is due
  std::vector<Flit> flits_;  // by tag
  std::vector<std::uint32_t> free_;
  std::uint64_t inside_ = 0, passed_ = 0;
  bool due_ = false, ticked_ = false;
  sc_core::sc_event due_event_{"due"};

  sc_core::sc_signal<bool> clk_{"clk"}, rst_{"rst"};
  sc_core::sc_signal<std::uint32_t> here_x_{"here_x"}, here_y_{"here_y"};
  sc_core::sc_signal<std::uint32_t> in_valid_{"in_valid"}, in_head_{"in_head"}, in_tail_{"in_tail"};
  sc_core::sc_signal<std::uint32_t> in_vc_{"in_vc"}, in_x_{"in_x"}, in_y_{"in_y"};
  sc_core::sc_signal<std::uint64_t> in_tag_{"in_tag"};
  sc_core::sc_signal<std::uint32_t> credit_in_{"credit_in"}, credit_in_vc_{"credit_in_vc"};
  sc_core::sc_signal<std::uint32_t> out_valid_{"out_valid"}, out_vc_{"out_vc"};
  sc_core::sc_signal<std::uint64_t> out_tag_{"out_tag"};
  sc_core::sc_signal<std::uint32_t> credit_out_{"credit_out"}, credit_out_vc_{"credit_out_vc"};
  Model model_;
  VerilatedTrace trace_;
};

}  // namespace tilewright::rtl
