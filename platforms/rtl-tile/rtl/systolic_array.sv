// ROWS x COLS multiply-accumulators, output stationary. In every cycle with `valid` a column of A
// (one operand for each row) and a row of B (one for each column) enter; the array delays row r by
// r cycles and column c by c cycles, so that operands which belong together meet. With `last` the
// sums are complete: that of row r and column c appears at c_out[c] in the cycle in which its last
// product is added, r + c cycles after `last`, one row per cycle. Two sums may follow each other
// after ROWS cycles or more.
module systolic_array #(
    parameter int ROWS      = 8,
    parameter int COLS      = 8,
    parameter int DATA_BITS = 8,
    parameter int ACC_BITS  = 32
) (
    input  logic                                 clk,
    input  logic                                 rst,
    input  logic                                 valid,
    input  logic                                 first,
    input  logic                                 last,
    input  logic [ROWS-1:0][DATA_BITS-1:0]       a,
    input  logic [COLS-1:0][DATA_BITS-1:0]       b,
    output logic [COLS-1:0]                      c_valid,
    output logic [COLS-1:0][ACC_BITS-1:0]        c_out
);
  typedef struct packed {
    logic valid, first, last;
    logic signed [DATA_BITS-1:0] data;
  } left_t;

  // What enters cell (r, c) from the left and from above; the last ones leave the array.
  /* verilator lint_off UNUSEDSIGNAL */
  left_t                       left [ROWS][COLS+1];
  logic signed [DATA_BITS-1:0] above[ROWS+1][COLS];
  /* verilator lint_on UNUSEDSIGNAL */
  logic signed [ ACC_BITS-1:0] sum  [ROWS][COLS];

  // Row r of A, with its flags, r cycles later.
  for (genvar r = 0; r < ROWS; ++r) begin : gen_skew_a
    left_t stage[r+1];
    assign stage[0] = '{valid && !rst, first, last, a[r]};
    for (genvar i = 0; i < r; ++i) begin : gen_stage
      always_ff @(posedge clk) begin
        stage[i+1] <= stage[i];
        if (rst) stage[i+1].valid <= 1'b0;
      end
    end
    assign left[r][0] = stage[r];
  end

  // Column c of B, c cycles later.
  for (genvar c = 0; c < COLS; ++c) begin : gen_skew_b
    logic signed [DATA_BITS-1:0] stage[c+1];
    assign stage[0] = b[c];
    for (genvar i = 0; i < c; ++i) begin : gen_stage
      always_ff @(posedge clk) stage[i+1] <= stage[i];
    end
    assign above[0][c] = stage[c];
  end

  for (genvar r = 0; r < ROWS; ++r) begin : gen_row
    for (genvar c = 0; c < COLS; ++c) begin : gen_col
      pe #(
          .DATA_BITS(DATA_BITS),
          .ACC_BITS (ACC_BITS)
      ) cell_i (
          .clk, .rst,
          .a(left[r][c].data),
          .b(above[r][c]),
          .valid(left[r][c].valid),
          .first(left[r][c].first),
          .last(left[r][c].last),
          .a_out(left[r][c+1].data),
          .b_out(above[r+1][c]),
          .valid_out(left[r][c+1].valid),
          .first_out(left[r][c+1].first),
          .last_out(left[r][c+1].last),
          .sum(sum[r][c])
      );
    end
  end

  // Rows finish a column one after the other, so a column needs one way out.
  always_comb begin
    for (int c = 0; c < COLS; ++c) begin
      c_valid[c] = 1'b0;
      c_out[c] = '0;
      for (int r = 0; r < ROWS; ++r) begin
        if (left[r][c].valid && left[r][c].last) begin
          c_valid[c] = 1'b1;
          c_out[c] |= sum[r][c];
        end
      end
    end
  end
endmodule
