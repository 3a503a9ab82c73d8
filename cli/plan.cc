#include <penstock/device.h>
#include "base/printable.h"
#include "run.h"
#include "values.h"
#include "verbs.h"

namespace penstock::inline v0::cli {
namespace {

struct plan_arguments {
  std::string uri, selection;
  std::size_t lines = 64;
  bool device = false;
};

int plan(const session& speak, const plan_arguments& given) {
  auto which = parse_selection(given.selection);
  if (!which.ok()) return speak.refuse(which.error().message());
  auto a = open_one(speak, given.uri);
  if (!a.ok()) return speak.fail(a.error());
  const auto resolved = a->select(*which);
  if (!resolved.ok()) return speak.fail(resolved.error());
  if (!speak.as_json) {
    auto text = given.device ? device_plan(*a, *resolved, given.lines) : a->plan(*resolved, given.lines);
    if (!text.ok()) return speak.fail(text.error());
    if (text->empty() || text->back() != '\n') *text += '\n';
    if (given.device) *text += "on a CUDA device: " + device_path(*a) + "\n";
    return speak.print(printable_lines(*text));
  }
  auto sums = given.device ? device_plan_json(*a, *resolved) : a->plan_json(*resolved);
  if (!sums.ok()) return speak.fail(sums.error());
  json::object_t document{{"uri", a->uri()},
                          {"selection", to_string(*which)},
                          {"shape", to_json(resolved->shape)},
                          {"dtype", short_type_text(a->type())},
                          {"plan", parsed(*sums)}};
  if (given.device) document.emplace_back("device", parsed(device_path_json(*a)));
  return speak.print_document(std::move(document));
}

}  // namespace

void add_plan(command_line& line) {
  auto given = std::make_shared<plan_arguments>();
  command verb = line.add("plan", "Show what a read would fetch, decode and fill");
  verb.required("URI", given->uri, "A path or a URI");
  verb.option("SELECTION", given->selection, "As in Python: '0:10, ::2', '..., -1'; default: the whole array");
  verb.option("--lines", given->lines, "Print at most that many operations");
  verb.flag("--device", given->device,
            "Show which chunks a CUDA device would decode and which the host would; needs no device");
  verb.json("Print the plan's sums as one JSON document");
  verb.footer("Examples:\n  penstock plan data.zarr\n  penstock plan data.zarr '0:10, ::2' --lines 8");
  verb.runs([given](const session& speak) { return plan(speak, *given); });
}

}  // namespace penstock::inline v0::cli
