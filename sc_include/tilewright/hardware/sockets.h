// The sockets of a tile.
//
// They are tlm_initiator_socket and tlm_target_socket but for one thing: the name of their second
// half. The originals take it from sc_gen_unique_name(), for which the kernel keeps a hash table in
// every module: at 100,000 tiles 90 MB and a sixth of the elaboration time. They bind to any
// TLM-2.0 socket of the same protocol.
#pragma once

#include <string>
#include <typeinfo>

#include <systemc>
#include <tlm>

namespace tilewright {

template <class Types = tlm::tlm_base_protocol_types, int N = 1,
          sc_core::sc_port_policy Policy = sc_core::SC_ONE_OR_MORE_BOUND>
class InitiatorSocket : public tlm::tlm_base_initiator_socket_b<32, tlm::tlm_fw_transport_if<Types>,
                                                                tlm::tlm_bw_transport_if<Types>>,
                        public sc_core::sc_port<tlm::tlm_fw_transport_if<Types>, N, Policy> {
 public:
  using Forward = tlm::tlm_fw_transport_if<Types>;
  using Backward = tlm::tlm_bw_transport_if<Types>;
  using Target = tlm::tlm_base_target_socket_b<32, Forward, Backward>;

  explicit InitiatorSocket(const char* name)
      : sc_core::sc_port<Forward, N, Policy>(name),
        export_((std::string(name) + "_export").c_str()) {}
  const char* kind() const override { return "tlm_initiator_socket"; }

  void bind(Target& target) {
    get_base_port()(target.get_base_interface());
    target.get_base_port()(get_base_interface());
  }
  void bind(Backward& backward) { export_(backward); }

  sc_core::sc_port_b<Forward>& get_base_port() override { return *this; }
  const sc_core::sc_port_b<Forward>& get_base_port() const override { return *this; }
  sc_core::sc_export<Backward>& get_base_export() override { return export_; }
  const sc_core::sc_export<Backward>& get_base_export() const override { return export_; }
  Backward& get_base_interface() override { return export_; }
  const Backward& get_base_interface() const override { return export_; }
  unsigned get_bus_width() const override { return 32; }
  sc_core::sc_type_index get_protocol_types() const override { return typeid(Types); }
  tlm::tlm_socket_category get_socket_category() const override {
    return tlm::TLM_INITIATOR_SOCKET;
  }

 private:
  sc_core::sc_export<Backward> export_;
};

template <class Types = tlm::tlm_base_protocol_types, int N = 1,
          sc_core::sc_port_policy Policy = sc_core::SC_ONE_OR_MORE_BOUND>
class TargetSocket : public tlm::tlm_base_target_socket_b<32, tlm::tlm_fw_transport_if<Types>,
                                                          tlm::tlm_bw_transport_if<Types>>,
                     public sc_core::sc_export<tlm::tlm_fw_transport_if<Types>> {
 public:
  using Forward = tlm::tlm_fw_transport_if<Types>;
  using Backward = tlm::tlm_bw_transport_if<Types>;

  explicit TargetSocket(const char* name)
      : sc_core::sc_export<Forward>(name), port_((std::string(name) + "_port").c_str()) {}
  const char* kind() const override { return "tlm_target_socket"; }

  void bind(Forward& forward) override { sc_core::sc_export<Forward>::bind(forward); }

  /// The initiators that are bound, in order of binding.
  Backward* operator[](int i) { return port_[i]; }

  sc_core::sc_port_b<Backward>& get_base_port() override { return port_; }
  const sc_core::sc_port_b<Backward>& get_base_port() const override { return port_; }
  sc_core::sc_export<Forward>& get_base_export() override { return *this; }
  const sc_core::sc_export<Forward>& get_base_export() const override { return *this; }
  Forward& get_base_interface() override { return *this; }
  const Forward& get_base_interface() const override { return *this; }
  unsigned get_bus_width() const override { return 32; }
  sc_core::sc_type_index get_protocol_types() const override { return typeid(Types); }
  tlm::tlm_socket_category get_socket_category() const override { return tlm::TLM_TARGET_SOCKET; }

 private:
  sc_core::sc_port<Backward, N, Policy> port_;
};

}  // namespace tilewright
