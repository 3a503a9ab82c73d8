#pragma once

#include <string>
#include <vector>

#include <penstock/array.h>
#include "command_line.h"
#include "session.h"

namespace penstock::inline v0::cli {

// Each verb registers itself.
void add_info(command_line& line);
void add_plan(command_line& line);
void add_read(command_line& line);
void add_check(command_line& line);
void add_tree(command_line& line);
void add_copy(command_line& line);
void add_rechunk(command_line& line);
void add_shard(command_line& line);
void add_ls(command_line& line);
void add_stats(command_line& line);
void add_head(command_line& line);
void add_diff(command_line& line);
void add_completion(command_line& line);

/// Replaces this process by Python's `penstock VERB ARGUMENTS`; returns only if that is not possible.
int run_in_python(const session& speak, int argc, const char* const* argv);
/// The same for a verb that this program has in a shorter form: returns if the Python package is not installed, or if
/// Python started this process.
void try_in_python(int argc, const char* const* argv);

/// Opens the array or group at `uri` for a verb, with a context of its own. Formats that the library does not open are
/// opened by `speak.others`, or by a Python process that replaces this one.
result<opened> open_node(const session& speak, const std::string& uri, unsigned threads = 0);
/// As `open_node`. \error invalid_argument  A group; a note names its children.
result<array> open_one(const session& speak, const std::string& uri, unsigned threads = 0);

/// The storage layout of a full array: the number of cells, and of objects (shards, or chunk files).
struct grid_counts {
  double cells = 1, objects = 1;
};
grid_counts count_grid(const array& a);
/// For each dimension its chunk length, or the list of them; null if all chunks have one shape.
json chunk_lengths_json(const array& a);

}  // namespace penstock::inline v0::cli
