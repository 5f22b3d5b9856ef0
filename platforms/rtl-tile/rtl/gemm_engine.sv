// C[m,n] = A[m,k] · B[k,n] on a systolic array: blocks of ROWS x COLS of C one after the other
// ("folds"), row block by row block. The operand buffers answer in the cycle in which they are asked.
//
// A fold takes k + ROWS + COLS - 2 cycles. With `pipelined` the operands of a fold enter while the one
// before drains, so each but the last takes max(k, ROWS). `busy` is high for exactly as many cycles as
// that makes, from the cycle of `start` on; m, n, k and `pipelined` stay until it falls.
module gemm_engine #(
    parameter int ROWS        = 8,
    parameter int COLS        = 8,
    parameter int DATA_BITS   = 8,
    parameter int ACC_BITS    = 32,
    parameter int EXTENT_BITS = 16
) (
    input  logic                           clk,
    input  logic                           rst,
    input  logic                           start,
    input  logic                           pipelined,
    input  logic [EXTENT_BITS-1:0]         m,
    input  logic [EXTENT_BITS-1:0]         n,
    input  logic [EXTENT_BITS-1:0]         k,
    output logic                           busy,
    // Operands: a[r] = A[row + r, step], b[c] = B[step, col + c], zero outside the matrices.
    output logic                           fetch,
    output logic [EXTENT_BITS-1:0]         row,
    output logic [EXTENT_BITS-1:0]         col,
    output logic [EXTENT_BITS-1:0]         step,
    input  logic [ROWS-1:0][DATA_BITS-1:0] a,
    input  logic [COLS-1:0][DATA_BITS-1:0] b,
    // Results: each column gives the rows of its folds in order, those outside C as well.
    output logic [COLS-1:0]                c_valid,
    output logic [COLS-1:0][ACC_BITS-1:0]  c_out
);
  localparam int CycleBits = EXTENT_BITS + 1;

  logic running;
  logic [EXTENT_BITS-1:0] fold_row, fold_col;
  logic [CycleBits-1:0] cycle;  // of the fold

  logic last_row, last_col, last_fold, fold_ends;
  logic [CycleBits-1:0] alone, spacing, length;

  always_comb begin
    busy = running || start;
    last_row = 32'(fold_row) + ROWS >= 32'(m);
    last_col = 32'(fold_col) + COLS >= 32'(n);
    last_fold = last_row && last_col;
    alone = CycleBits'(k) + CycleBits'(ROWS + COLS - 2);
    spacing = 32'(k) > ROWS ? CycleBits'(k) : CycleBits'(ROWS);
    length = pipelined && !last_fold ? spacing : alone;
    fold_ends = cycle + 1'b1 == length;
    fetch = busy && cycle < CycleBits'(k);
    row = fold_row;
    col = fold_col;
    step = cycle[EXTENT_BITS-1:0];
  end

  always_ff @(posedge clk) begin
    if (rst || (busy && fold_ends && last_fold)) begin
      running <= 1'b0;
      fold_row <= '0;
      fold_col <= '0;
      cycle <= '0;
    end else if (busy) begin
      running <= 1'b1;
      cycle <= fold_ends ? '0 : cycle + 1'b1;
      if (fold_ends) begin
        fold_col <= last_col ? '0 : fold_col + EXTENT_BITS'(COLS);
        if (last_col) fold_row <= fold_row + EXTENT_BITS'(ROWS);
      end
    end
  end

  systolic_array #(
      .ROWS(ROWS),
      .COLS(COLS),
      .DATA_BITS(DATA_BITS),
      .ACC_BITS(ACC_BITS)
  ) array (
      .clk, .rst,
      .valid(fetch),
      .first(step == '0),
      .last(step + 1'b1 == k),
      .a, .b, .c_valid, .c_out
  );
endmodule
