#include <fmt/format.h>

#include <set>

#include "base/counted.h"
#include "base/printable.h"
#include "interrupt.h"
#include "progress.h"
#include "run.h"
#include "verbs.h"

namespace penstock::inline v0::cli {
namespace {

struct check_arguments {
  std::string uri;
  std::size_t max_failures = 100;
  unsigned threads = 0;
};

/// Checks arrays one after the other and collects the findings in both forms.
class checker {
 public:
  explicit checker(const check_arguments& given) : given_(given) {}

  /// Checks the content of a group that several links lead to once.
  /// \error cancelled  No other error: every other failure is a finding.
  result<> visit(const opened& found, const std::string& path, int depth = 0) {
    if (const auto* a = std::get_if<array>(&found)) return visit_array(*a, path);
    const opened_group& g = *std::get<std::shared_ptr<const opened_group>>(found);
    if (const std::string identity = g.identity(); !identity.empty() && !checked_.insert(identity).second) return {};
    auto names = g.keys();
    if (!names.ok()) return unreadable(path, g.uri(), names.error());
    for (const std::string& name : *names) {
      const std::string below = path.empty() ? name : path + "/" + name;
      auto child = g.open(name);
      if (!child.ok() && child.error().code() == errc::unsupported) {
        unsupported(below, child.error());
      } else if (!child.ok()) {
        PENSTOCK_TRY(unreadable(below, below, child.error()));
      } else if (depth < kMaxDepth) {
        PENSTOCK_TRY(visit(*child, below, depth + 1));
      }
    }
    return {};
  }

  bool good() const { return good_; }
  /// The findings; for several arrays a last line sums them up.
  std::string text() const {
    if (arrays_.size() < 2 && unsupported_.empty()) return text_;
    std::string verdict = bad_ == 0 ? painted(color::green, "all good")
                                    : painted(color::red, fmt::format("{} of them with faults", bad_));
    if (!unsupported_.empty()) verdict += fmt::format(", {} more not readable by penstock", unsupported_.size());
    return text_ + fmt::format("{}, {}, {} absent, {} decoded from {}, {}\n", counted(arrays_.size(), "array"),
                               counted(cells_, "chunk"), absent_, bytes_text(static_cast<double>(decoded_)),
                               bytes_text(static_cast<double>(encoded_)), verdict);
  }
  json document(const std::string& uri) {
    json sums = json::object_t{{"arrays", std::uint64_t{arrays_.size()}},
                               {"faulty_arrays", bad_},
                               {"unsupported", std::uint64_t{unsupported_.size()}},
                               {"cells", cells_},
                               {"absent", absent_},
                               {"failed", failed_},
                               {"encoded_bytes", encoded_},
                               {"decoded_bytes", decoded_}};
    return json::object_t{{"uri", uri},
                          {"ok", good_},
                          {"sums", std::move(sums)},
                          {"arrays", std::move(arrays_)},
                          {"unsupported", std::move(unsupported_)}};
  }

 private:
  static constexpr int kMaxDepth = 64;

  result<> visit_array(const array& a, const std::string& path) {
    progress_line line(path.empty() ? "checking" : "checking " + path);
    read_options options;
    options.threads = given_.threads;
    options.progress = line.callback();
    auto report = [&] {
      const stoppable checking;
      return a.check(options, given_.max_failures);
    }();
    if (!report.ok()) return unreadable(path, a.uri(), report.error());
    if (caught_signal() != 0) return error(errc::cancelled, "interrupted");

    json::array_t failures;
    for (const auto& bad : report->failures) {
      failures.emplace_back(json::object_t{{"cell", bad.cell}, {"error", to_json(bad.what)}});
      text_ += fmt::format("{}: {}\n", painted(color::red, printable(bad.cell)), printable_lines(bad.what.to_string()));
    }
    if (report->failed > report->failures.size()) {
      text_ += fmt::format("... and {} more\n", report->failed - report->failures.size());
    }
    text_ += fmt::format("{}: {} of {} {}, {} absent, {} decoded from {}\n", printable(a.uri()),
                         report->failed != 0 ? report->failed : report->cells, counted(report->cells, "chunk"),
                         report->failed != 0 ? painted(color::red, "bad") : painted(color::green, "good"),
                         report->absent, bytes_text(static_cast<double>(report->decoded_bytes)),
                         bytes_text(static_cast<double>(report->encoded_bytes)));
    cells_ += report->cells;
    absent_ += report->absent;
    failed_ += report->failed;
    encoded_ += report->encoded_bytes;
    decoded_ += report->decoded_bytes;
    if (report->failed != 0) {
      good_ = false;
      ++bad_;
    }
    arrays_.emplace_back(json::object_t{{"path", path},
                                        {"uri", a.uri()},
                                        {"cells", report->cells},
                                        {"absent", report->absent},
                                        {"failed", report->failed},
                                        {"encoded_bytes", report->encoded_bytes},
                                        {"decoded_bytes", report->decoded_bytes},
                                        {"failures", std::move(failures)}});
    return {};
  }

  result<> unreadable(const std::string& path, const std::string& uri, const error& why) {
    if (why.code() == errc::cancelled) return why.clone();
    good_ = false;
    ++bad_;
    text_ += fmt::format("{}: {}\n", printable(uri), printable_lines(why.to_string()));
    arrays_.emplace_back(json::object_t{{"path", path}, {"uri", uri}, {"error", to_json(why)}});
    return {};
  }

  // Describes a member that may be valid but that this program does not read: not a fault.
  void unsupported(const std::string& path, const error& why) {
    text_ += fmt::format("{}: not readable by penstock: {}\n", printable(path), printable(why.message()));
    unsupported_.emplace_back(json::object_t{{"path", path}, {"error", to_json(why)}});
  }

  const check_arguments& given_;
  bool good_ = true;
  std::uint64_t cells_ = 0, bad_ = 0, absent_ = 0, failed_ = 0, encoded_ = 0, decoded_ = 0;
  std::string text_;
  json::array_t arrays_, unsupported_;
  std::set<std::string> checked_;  // identities of groups
};

int check(const session& speak, const check_arguments& given) {
  auto found = open_node(speak, given.uri, given.threads);
  if (!found.ok()) return speak.fail(found.error());
  checker all(given);
  if (auto done = all.visit(*found, ""); !done.ok()) return speak.fail(done.error());
  const int status = speak.as_json ? speak.print_document(all.document(given.uri)) : speak.print(all.text());
  return status == kOk && !all.good() ? kFailed : status;
}

}  // namespace

void add_check(command_line& line) {
  auto given = std::make_shared<check_arguments>();
  command verb = line.add("check", "Decode everything and report each bad chunk");
  verb.required("URI", given->uri, "A path or a URI; a group means every array in it");
  verb.option("--max-failures", given->max_failures, "List at most that many bad chunks of an array");
  verb.threads(given->threads, "Threads for decoding; default: one for each core");
  verb.json("Print one JSON document");
  verb.footer(
      "Exit status 1 if anything is bad. Members of a group that penstock does not read are listed, but are not\n"
      "faults.\n\nExamples:\n  penstock check data.zarr\n  penstock check run/ --json");
  verb.runs([given](const session& speak) { return check(speak, *given); });
}

}  // namespace penstock::inline v0::cli
