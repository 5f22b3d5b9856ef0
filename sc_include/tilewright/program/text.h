// Tile programs as text (docs/program.md): for people to read and for other tools to write.
#pragma once

#include <string>

#include <tilewright/program/program.h>

namespace tilewright {

/// The whole program as text; parse_program() gives an equal program back, and its text is the same
/// to the byte. Throws InputError when an instruction or a shape sets a field that its kind does
/// not use, since the text could not carry it.
std::string program_text(const Program& program);

/// Reads a program and seals it. `name` stands for the file in messages. Throws InputError
/// "<name>:<line>: '<token>': <what is wrong and what is allowed>"; what only the whole program can
/// show (sends without receives, peers that belong to no group) names the group, the segment and
/// the instruction in place of the line.
Program parse_program(const std::string& text, const std::string& name = "<text>");

/// parse_program() of a file. Throws InputError when it cannot be read.
Program load_program(const std::string& path);

}  // namespace tilewright
