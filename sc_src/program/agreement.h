// The check that every tile receives what its peers send, for Program::seal().
#pragma once

#include <string>

#include <tilewright/program/program.h>

namespace tilewright::program_detail {

/// "dma_in load 'qkv'": what an instruction is called in messages.
std::string describe(const Program& program, const Instruction& instruction);

/// Compares, over the whole iteration and for each (source, destination, channel), the number of
/// messages and of bytes at both ends, and that a tile receives a channel from one source only.
/// Everything else seal() promises must have been checked. Cost: instructions + distinct (channel,
/// peer table, size) × ranks per group; the calls of a segment are a factor, never walked.
/// Throws InputError.
void check_agreement(const Program& program);

}  // namespace tilewright::program_detail
