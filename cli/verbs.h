#pragma once

#include <string>
#include <vector>

#include <penstock/array.h>
#include "command_line.h"
#include "session.h"

namespace penstock::inline v0::cli {

// Each verb adds itself.
void add_info(command_line& line);
void add_plan(command_line& line);
void add_read(command_line& line);
void add_check(command_line& line);
void add_tree(command_line& line);
void add_copy(command_line& line);

/// Replaces this process by Python's `penstock VERB ARGUMENTS`; returns only where that is not possible.
int run_in_python(const session& speak, int argc, const char* const* argv);
/// The same for a verb that this program has in a shorter form: returns where Python has no package, or asked itself.
void try_in_python(int argc, const char* const* argv);

/// What a verb opens: the array or group at `uri`, with a context of its own.
result<node> open_node(const std::string& uri, unsigned threads = 0);
/// As `open_node`, and refuses a group, naming the arrays in it.
result<array> open_one(const std::string& uri, unsigned threads = 0);

/// Where storage keeps its bytes together: the number of cells, and of objects (shards, or chunk files), of a full
/// array.
struct grid_counts {
  double cells = 1, objects = 1;
};
grid_counts count_grid(const array& a);
/// For each dimension its chunk length, or the list of them; null where all chunks are of one shape.
json chunk_lengths_json(const array& a);

}  // namespace penstock::inline v0::cli
