// A multiply-accumulator of the array. The left operand and its flags go on to the right, the upper
// operand goes on downwards, each after a cycle.
module pe #(
    parameter int DATA_BITS = 8,
    parameter int ACC_BITS  = 32
) (
    input  logic                        clk,
    input  logic                        rst,
    input  logic signed [DATA_BITS-1:0] a,
    input  logic signed [DATA_BITS-1:0] b,
    input  logic                        valid,  // a and b are operands,
    input  logic                        first,  // the first of a sum,
    input  logic                        last,   // the last of a sum
    output logic signed [DATA_BITS-1:0] a_out,
    output logic signed [DATA_BITS-1:0] b_out,
    output logic                        valid_out,
    output logic                        first_out,
    output logic                        last_out,
    output logic signed [ ACC_BITS-1:0] sum     // complete when valid and last
);
  logic signed [ACC_BITS-1:0] acc;

  assign sum = (first ? ACC_BITS'(0) : acc) + ACC_BITS'(a) * ACC_BITS'(b);

  always_ff @(posedge clk) begin
    if (valid) acc <= sum;
    a_out <= a;
    b_out <= b;
    first_out <= first;
    last_out <= last;
    valid_out <= valid && !rst;
  end
endmodule
