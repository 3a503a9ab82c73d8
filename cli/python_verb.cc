#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "run.h"
#include "verbs.h"

extern char** environ;

namespace penstock::inline v0::cli {
namespace {

constexpr const char* kWithin = "PENSTOCK_VERB_IN_PYTHON";

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> out;
  for (auto& word : words) out.push_back(word.data());
  out.push_back(nullptr);
  return out;
}

/// Whether that interpreter runs and finds the package. Checked first, because its own message is a traceback.
bool has_package(const std::string& python) {
  std::vector<std::string> words = {
      python, "-c", "import sys, importlib.util; sys.exit(importlib.util.find_spec('penstock') is None)"};
  posix_spawn_file_actions_t quiet;
  posix_spawn_file_actions_init(&quiet);
  posix_spawn_file_actions_addopen(&quiet, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int failed = posix_spawnp(&child, python.c_str(), &quiet, nullptr, pointers(words).data(), environ);
  posix_spawn_file_actions_destroy(&quiet);
  if (failed != 0) return false;
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return false;
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::string interpreter() {
  const char* const chosen = std::getenv("PENSTOCK_PYTHON");
  return chosen != nullptr && *chosen != '\0' ? chosen : "python3";
}

void replace_by(const std::string& python, int argc, const char* const* argv) {
  std::vector<std::string> words = {python, "-m", "penstock"};
  words.insert(words.end(), argv + 1, argv + argc);
  signal(SIGPIPE, SIG_DFL);  // ignored signals stay ignored in the program that follows
  setenv(kWithin, "1", 1);
  execvp(python.c_str(), pointers(words).data());
}

}  // namespace

int run_in_python(const session& speak, int argc, const char* const* argv) {
  const std::string python = interpreter();
  error failure(errc::unsupported, fmt::format("'penstock {}' needs the Python package", argv[1]));
  failure.note(fmt::format("'{} -c \"import penstock\"' fails", python));
  failure.note("install the package, or name its interpreter in PENSTOCK_PYTHON");
  if (!has_package(python)) return speak.fail(failure);
  replace_by(python, argc, argv);
  return speak.fail(failure);
}

void try_in_python(int argc, const char* const* argv) {
  if (std::getenv(kWithin) != nullptr) return;  // the process that started this one
  if (const std::string python = interpreter(); has_package(python)) replace_by(python, argc, argv);
}

}  // namespace penstock::inline v0::cli
