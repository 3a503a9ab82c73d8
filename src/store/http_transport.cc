#include "store/http_transport.h"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

#include "base/waiting.h"
#include "store/http_loop.h"

namespace penstock::inline v0 {

struct http_transport::running {
  running(unsigned connections, unsigned short_ones) : of(http_loop::make(connections, short_ones)) {}
  std::shared_ptr<http_loop> of;
};

http_transport::http_transport(unsigned connections, unsigned short_ones)
    : running_([connections, short_ones] { return std::make_unique<running>(connections, short_ones); }) {}

http_transport::~http_transport() = default;

result<std::shared_ptr<http_transport>> http_transport::make(unsigned connections, unsigned short_ones) {
  PENSTOCK_TRY(http_loop::available());
  return std::shared_ptr<http_transport>(new http_transport(connections, short_ones));
}

void http_transport::start(std::unique_ptr<http_exchange> what, std::shared_ptr<const http_settings> settings,
                           std::stop_token stop) {
  running_.get().of->start(std::move(what), std::move(settings), std::move(stop));
}

namespace {

class asked final : public http_exchange {
 public:
  asked(http_question question, answer_taker then) : question_(std::move(question)), then_(std::move(then)) {}

  result<> prepare(http_request& out) override {
    answer_ = {};
    answer_.doubtful = attempts_++ != 0;
    PENSTOCK_TRY(question_.prepare(out));
    answer_.region = out.region;
    return {};
  }
  result<> head(const http_head& head) override {
    answer_.head = head;
    return {};
  }
  result<appetite> body(std::span<const std::byte> bytes) override {
    if (bytes.size() > question_.max_body_bytes - answer_.body.size())
      return error(errc::corrupt_data, "the server's response is too long");
    answer_.body.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return appetite::more;
  }
  std::optional<error> temporary_failure() override {
    return question_.temporary_failure ? question_.temporary_failure(answer_.body) : std::nullopt;
  }
  result<ending> end() override { return ending::whole; }
  result<ending> failed(const http_head& head, std::string_view body, bool doubtful) override {
    answer_.doubtful = doubtful;
    answer_.head = head;
    answer_.body = body;
    return ending::whole;
  }
  void finish(result<> outcome) noexcept override {
    if (outcome.ok()) {
      then_(std::move(answer_));
    } else {
      then_(std::move(outcome).error());
    }
  }

 private:
  http_question question_;
  answer_taker then_;
  http_answer answer_;
  unsigned attempts_ = 0;
};

// The shared state of a requesting thread and the transport's.
struct waiting_room {
  std::mutex mutex;
  std::condition_variable arrived;
  std::optional<result<http_answer>> answer;
};

}  // namespace

void ask_then(http_transport& through, const std::shared_ptr<const http_settings>& settings, http_question question,
              std::stop_token stop, answer_taker then) {
  through.start(std::make_unique<asked>(std::move(question), std::move(then)), settings, std::move(stop));
}

result<http_answer> ask(http_transport& through, const std::shared_ptr<const http_settings>& settings,
                        http_question question) {
  const auto room = std::make_shared<waiting_room>();
  std::stop_source stop = stop_of_wait();
  ask_then(through, settings, std::move(question), stop.get_token(), [room](result<http_answer> answer) {
    const std::lock_guard lock(room->mutex);
    room->answer.emplace(std::move(answer));
    room->arrived.notify_all();
  });
  std::unique_lock lock(room->mutex);
  wait_until(lock, room->arrived, stop, [&] { return room->answer.has_value(); });
  return std::move(*room->answer);
}

}  // namespace penstock::inline v0
