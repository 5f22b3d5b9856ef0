// An input-queued virtual-channel router with credits, for a mesh with XY routing. Ports: 0 east,
// 1 west, 2 south, 3 north, 4 the tile.
//
// A cycle, on what the registers hold:
//  - VC allocation: a head in front of its channel asks for every free channel of its output port;
//    each channel grants one head, each head accepts one channel.
//  - Switch allocation: each input offers, for each output, one of its channels that hold an output
//    channel, a flit and a credit; each output grants one input, each input accepts one output.
//  - The winner's flit goes into the register of its output port (switch traversal) and its place
//    back upstream as a credit. A tail gives its output channel back.
// Both allocators are separable with one iteration, by round robin at either side; a pointer moves on
// only when its grant is accepted (iSLIP). What enters by a port during a cycle is there in the next.
module vc_router #(
    parameter int VCS      = 4,   // virtual channels of a port
    parameter int DEPTH    = 4,   // flits of a channel
    parameter int XY_BITS  = 6,   // of a coordinate
    parameter int TAG_BITS = 12,  // of what a flit carries
    localparam int PORTS   = 5,
    localparam int VcBits  = VCS > 1 ? $clog2(VCS) : 1
) (
    input  logic                            clk,
    input  logic                            rst,
    input  logic [XY_BITS-1:0]              here_x,
    input  logic [XY_BITS-1:0]              here_y,
    // Flits that come in, and places that have become free behind the outputs.
    input  logic [PORTS-1:0]                in_valid,
    input  logic [PORTS-1:0]                in_head,
    input  logic [PORTS-1:0]                in_tail,
    input  logic [PORTS-1:0][VcBits-1:0]    in_vc,
    input  logic [PORTS-1:0][XY_BITS-1:0]   in_x,
    input  logic [PORTS-1:0][XY_BITS-1:0]   in_y,
    input  logic [PORTS-1:0][TAG_BITS-1:0]  in_tag,
    input  logic [PORTS-1:0]                credit_in,
    input  logic [PORTS-1:0][VcBits-1:0]    credit_in_vc,
    // Flits that go out, and places that have become free in the input buffers.
    output logic [PORTS-1:0]                out_valid,
    output logic [PORTS-1:0][VcBits-1:0]    out_vc,
    output logic [PORTS-1:0][TAG_BITS-1:0]  out_tag,
    output logic [PORTS-1:0]                credit_out,
    output logic [PORTS-1:0][VcBits-1:0]    credit_out_vc
);
  localparam int All = PORTS * VCS;  // channels of a side, numbered port * VCS + vc
  localparam int AllBits = $clog2(All);
  localparam int PlaceBits = DEPTH > 1 ? $clog2(DEPTH) : 1;
  localparam int CountBits = $clog2(DEPTH + 1);
  localparam int PortBits = $clog2(PORTS);

  typedef struct packed {
    logic head, tail;
    logic [XY_BITS-1:0] x, y;
    logic [TAG_BITS-1:0] tag;
  } flit_t;

  // --- state -----------------------------------------------------------------------------------

  flit_t                 buffer[All][DEPTH];
  logic [PlaceBits-1:0]  place [All];  // of the front flit
  logic [CountBits-1:0]  count [All];
  logic                  active[All];  // holds the output channel
  logic [AllBits-1:0]    target[All];
  logic [CountBits-1:0]  credit[All];  // by output channel
  logic                  free  [All];

  // Round robins: by output channel over input channels, by input channel over output channels; by
  // output port over inputs, by input port over outputs and over its own channels.
  logic [AllBits-1:0]    vc_grant[All], vc_accept[All];
  logic [PortBits-1:0]   sw_grant[PORTS], sw_accept[PORTS];
  logic [VcBits-1:0]     offset[PORTS];

  // One bit: the first one set at or after `start`, round the end.
  function automatic logic [All-1:0] first_channel(logic [All-1:0] bits,
                                                   logic [AllBits-1:0] start);
    automatic logic [All-1:0] later = bits & ({All{1'b1}} << start);
    automatic logic [All-1:0] pick = later != 0 ? later : bits;
    return pick & (~pick + 1'b1);
  endfunction
  function automatic logic [PORTS-1:0] first_port(logic [PORTS-1:0] bits,
                                                  logic [PortBits-1:0] start);
    automatic logic [PORTS-1:0] later = bits & ({PORTS{1'b1}} << start);
    automatic logic [PORTS-1:0] pick = later != 0 ? later : bits;
    return pick & (~pick + 1'b1);
  endfunction
  // Port and channel of a number.
  function automatic logic [PortBits-1:0] port_of(logic [AllBits-1:0] number);
    return PortBits'(32'(number) / VCS);
  endfunction
  function automatic logic [VcBits-1:0] vc_of(logic [AllBits-1:0] number);
    return VcBits'(32'(number) % VCS);
  endfunction
  function automatic logic [AllBits-1:0] number_of(int port, logic [VcBits-1:0] vc);
    return AllBits'(port * VCS + 32'(vc));
  endfunction
  // The number of the one bit that is set.
  function automatic logic [AllBits-1:0] channel_number(logic [All-1:0] bit_set);
    channel_number = '0;
    for (int i = 0; i < All; ++i) if (bit_set[i]) channel_number |= AllBits'(i);
  endfunction
  function automatic logic [PortBits-1:0] port_number(logic [PORTS-1:0] bit_set);
    port_number = '0;
    for (int i = 0; i < PORTS; ++i) if (bit_set[i]) port_number |= PortBits'(i);
  endfunction

  // --- the front of each channel ---------------------------------------------------------------

  flit_t               front[All];
  logic [PortBits-1:0] route[All];  // output port of a head

  always_comb begin
    for (int i = 0; i < All; ++i) begin
      front[i] = buffer[i][place[i]];
      if (front[i].x > here_x) route[i] = 3'd0;
      else if (front[i].x < here_x) route[i] = 3'd1;
      else if (front[i].y > here_y) route[i] = 3'd2;
      else if (front[i].y < here_y) route[i] = 3'd3;
      else route[i] = 3'd4;
    end
  end

  // --- VC allocation ---------------------------------------------------------------------------

  logic [All-1:0]     asks[PORTS];     // by output port: the input channels that ask for it
  logic [All-1:0]     grants[All];     // by output channel: the input channel it grants
  logic [All-1:0]     granted[All];    // by input channel: the output channels that grant it
  logic [All-1:0]     vc_won;          // by input channel
  logic [AllBits-1:0] vc_result[All];  // the output channel it got

  always_comb begin
    for (int o = 0; o < PORTS; ++o) begin
      for (int i = 0; i < All; ++i) begin
        asks[o][i] = !active[i] && count[i] != 0 && route[i] == PortBits'(o);
      end
    end
    for (int c = 0; c < All; ++c) begin
      grants[c] = free[c] ? first_channel(asks[c/VCS], vc_grant[c]) : '0;
    end
    for (int i = 0; i < All; ++i) begin
      for (int c = 0; c < All; ++c) granted[i][c] = grants[c][i];
      vc_won[i] = granted[i] != 0;
      vc_result[i] = channel_number(first_channel(granted[i], vc_accept[i]));
    end
  end

  // --- switch allocation -----------------------------------------------------------------------

  logic [PORTS-1:0]    sw_won;            // by input port
  logic [PortBits-1:0] sw_out[PORTS];     // the output it got
  logic [AllBits-1:0]  sw_channel[PORTS]; // for its channel
  logic [PORTS-1:0]    sw_offered[PORTS];         // by input: the outputs it has an offer for,
  logic [AllBits-1:0]  sw_offer[PORTS][PORTS];    // its channel
  logic [PORTS-1:0]    sw_asks[PORTS];            // by output: the inputs with an offer for it,
  logic [PORTS-1:0]    sw_grants[PORTS];          // the input it grants
  logic [PORTS-1:0]    sw_granted[PORTS];         // by input: the outputs that grant it

  always_comb begin
    for (int p = 0; p < PORTS; ++p) begin
      sw_offered[p] = '0;
      for (int o = 0; o < PORTS; ++o) sw_offer[p][o] = '0;
      // What comes later overwrites: of each output the first channel from the offset on stays.
      for (int turn = 2 * VCS - 1; turn >= 0; --turn) begin
        automatic logic [AllBits-1:0] i = AllBits'(p * VCS + turn % VCS);
        automatic logic from_offset = turn % VCS >= 32'(offset[p]);
        if (from_offset == (turn < VCS) && active[i] && count[i] != 0 && credit[target[i]] != 0) begin
          sw_offered[p][port_of(target[i])] = 1'b1;
          sw_offer[p][port_of(target[i])] = i;
        end
      end
    end
    for (int o = 0; o < PORTS; ++o) begin
      for (int p = 0; p < PORTS; ++p) sw_asks[o][p] = sw_offered[p][o];
      sw_grants[o] = first_port(sw_asks[o], sw_grant[o]);
    end
    for (int p = 0; p < PORTS; ++p) begin
      for (int o = 0; o < PORTS; ++o) sw_granted[p][o] = sw_grants[o][p];
      sw_won[p] = sw_granted[p] != 0;
      sw_out[p] = port_number(first_port(sw_granted[p], sw_accept[p]));
      sw_channel[p] = sw_offer[p][sw_out[p]];
    end
  end

  // --- the next cycle --------------------------------------------------------------------------

  // Channels that flits enter and leave, credits that come and go.
  logic [All-1:0] enters, leaves, tail_leaves, earns, spends, given, released;

  always_comb begin
    enters = '0;
    leaves = '0;
    tail_leaves = '0;
    earns = '0;
    spends = '0;
    given = '0;
    released = '0;
    for (int p = 0; p < PORTS; ++p) begin
      if (in_valid[p]) enters[number_of(p, in_vc[p])] = 1'b1;
      if (credit_in[p]) earns[number_of(p, credit_in_vc[p])] = 1'b1;
      if (sw_won[p]) begin
        leaves[sw_channel[p]] = 1'b1;
        spends[target[sw_channel[p]]] = 1'b1;
        tail_leaves[sw_channel[p]] = front[sw_channel[p]].tail;
        released[target[sw_channel[p]]] = front[sw_channel[p]].tail;
      end
    end
    for (int i = 0; i < All; ++i) if (vc_won[i]) given[vc_result[i]] = 1'b1;
  end

  always_ff @(posedge clk) begin
    out_valid <= '0;
    credit_out <= '0;
    for (int p = 0; p < PORTS; ++p) begin
      if (in_valid[p]) begin
        automatic logic [AllBits-1:0] i = number_of(p, in_vc[p]);
        buffer[i][PlaceBits'((32'(place[i]) + 32'(count[i])) % DEPTH)] <= '{in_head[p], in_tail[p], in_x[p], in_y[p], in_tag[p]};
      end
      if (sw_won[p]) begin
        out_valid[sw_out[p]] <= 1'b1;
        out_vc[sw_out[p]] <= vc_of(target[sw_channel[p]]);
        out_tag[sw_out[p]] <= front[sw_channel[p]].tag;
        credit_out[p] <= 1'b1;
        credit_out_vc[p] <= vc_of(sw_channel[p]);
        sw_grant[sw_out[p]] <= p == PORTS - 1 ? '0 : PortBits'(p + 1);
        sw_accept[p] <= sw_out[p] == PortBits'(PORTS - 1) ? '0 : sw_out[p] + 1'b1;
        offset[p] <= VcBits'((32'(vc_of(sw_channel[p])) + 1) % VCS);
      end
    end
    for (int i = 0; i < All; ++i) begin
      count[i] <= count[i] + CountBits'(enters[i]) - CountBits'(leaves[i]);
      if (leaves[i]) place[i] <= place[i] == PlaceBits'(DEPTH - 1) ? '0 : place[i] + 1'b1;
      if (vc_won[i]) begin
        active[i] <= 1'b1;
        target[i] <= vc_result[i];
        vc_grant[vc_result[i]] <= i == All - 1 ? '0 : AllBits'(i + 1);
        vc_accept[i] <= vc_result[i] == AllBits'(All - 1) ? '0 : vc_result[i] + 1'b1;
      end else if (tail_leaves[i]) begin
        active[i] <= 1'b0;
      end
      credit[i] <= credit[i] + CountBits'(earns[i]) - CountBits'(spends[i]);
      free[i] <= (free[i] && !given[i]) || released[i];
    end
    if (rst) begin
      for (int p = 0; p < PORTS; ++p) begin
        sw_grant[p] <= '0;
        sw_accept[p] <= '0;
        offset[p] <= '0;
      end
      for (int i = 0; i < All; ++i) begin
        count[i] <= '0;
        place[i] <= '0;
        active[i] <= 1'b0;
        credit[i] <= CountBits'(DEPTH);
        free[i] <= 1'b1;
        vc_grant[i] <= '0;
        vc_accept[i] <= '0;
      end
    end
  end

  // --- what must never happen ------------------------------------------------------------------

`ifndef SYNTHESIS
  always_ff @(posedge clk) begin
    if (!rst) begin
      for (int i = 0; i < All; ++i) begin
        if (enters[i] && !leaves[i] && count[i] == CountBits'(DEPTH)) begin
          $fatal(1, "channel %0d: its buffer overflows", i);
        end
        if (earns[i] && !spends[i] && credit[i] == CountBits'(DEPTH)) begin
          $fatal(1, "output channel %0d: more credits than places", i);
        end
        if (vc_won[i] && !front[i].head) $fatal(1, "channel %0d: a packet without a head", i);
      end
    end
  end
`endif
endmodule
