#include <set>

#include "support/http_server.h"

namespace penstock::test {
namespace {

std::string field_of(const std::string& query, const std::string& name) {
  const std::string padded = "&" + query + "&", wanted = "&" + name + "=";
  const std::size_t at = padded.find(wanted);
  if (at == std::string::npos) return {};
  const std::size_t from = at + wanted.size();
  return percent_decoded(std::string_view(padded).substr(from, padded.find('&', from) - from));
}

void append(std::string& to, std::string_view name, std::string_view value) {
  to.append("<").append(name).append(">");
  for (const char each : value) {
    if (each == '&') {
      to.append("&amp;");
    } else if (each == '<') {
      to.append("&lt;");
    } else {
      to.push_back(each);
    }
  }
  to.append("</").append(name).append(">");
}

constexpr std::string_view kDeclaration = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";

}  // namespace

// Needs the lock, as answer_list does.
http_server::reply http_server::answer_write(const request& asked, const std::string& path, const std::string& query) {
  reply out;
  const std::string upload = field_of(query, "uploadId");
  if (asked.method == "POST" && query.compare(0, 7, "uploads") == 0) {
    const std::string made = "upload/" + std::to_string(++generation_);
    uploads_[made];
    out.body = kDeclaration;
    out.body += "<InitiateMultipartUploadResult>";
    append(out.body, "UploadId", made);
    out.body += "</InitiateMultipartUploadResult>";
    return out;
  }
  if (!upload.empty() && uploads_.find(upload) == uploads_.end()) {
    out.status = 404;
    return out;
  }
  if (asked.method == "PUT" && !upload.empty()) {
    const int number = std::stoi(field_of(query, "partNumber"));
    uploads_[upload][number] = asked.body;
    out.set("ETag", "\"part" + std::to_string(number) + "\"");
    return out;
  }
  if (asked.method == "DELETE" && !upload.empty()) {
    uploads_.erase(upload);
    out.status = 204;
    return out;
  }
  const auto at = objects_.find(path);
  const bool there = at != objects_.end();
  const std::string match = asked.field("if-match");
  if ((!match.empty() && (!there || match != at->second.tag)) || (asked.field("if-none-match") == "*" && there)) {
    out.status = match.empty() || there ? 412 : 404;
    out.body = "<Error><Code>PreconditionFailed</Code><Message>no</Message></Error>";
    return out;
  }
  if (asked.method == "DELETE") {
    objects_.erase(path);
    out.status = 204;
    return out;
  }
  std::string bytes = asked.body;
  if (!upload.empty()) {
    bytes.clear();
    for (const auto& [number, part] : uploads_[upload]) {
      std::string wanted = "<PartNumber>";
      wanted.append(std::to_string(number)).append("</PartNumber><ETag>\"part").append(std::to_string(number));
      if (asked.body.find(wanted) == std::string::npos) {
        out.status = 400;
        out.body = "<Error><Code>InvalidPart</Code><Message>not all parts are listed</Message></Error>";
        return out;
      }
      bytes += part;
    }
    uploads_.erase(upload);
  }
  std::string tag = "\"";
  tag.append(std::to_string(++generation_)).append("\"");
  objects_[path] = {std::move(bytes), tag};
  if (upload.empty()) {
    out.set("ETag", tag);
  } else {
    out.body = "<CompleteMultipartUploadResult>";
    append(out.body, "ETag", tag);
    out.body += "</CompleteMultipartUploadResult>";
  }
  return out;
}

// Two keys a page, so that every listing has several.
http_server::reply http_server::answer_list(const std::string& bucket, const std::string& query) const {
  constexpr std::size_t kPage = 2;
  const std::string prefix = field_of(query, "prefix"), after = field_of(query, "continuation-token");
  const bool children = field_of(query, "delimiter") == "/";
  std::set<std::pair<std::string, std::size_t>> found;  // folders have no size
  for (const auto& [path, what] : objects_) {
    if (path.size() <= bucket.size() || path.compare(0, bucket.size(), bucket) != 0) continue;
    const std::string key = path.substr(bucket.size());
    if (key.compare(0, prefix.size(), prefix) != 0) continue;
    const std::size_t slash = children ? key.find('/', prefix.size()) : std::string::npos;
    found.emplace(key.substr(0, slash == std::string::npos ? slash : slash + 1),
                  slash == std::string::npos ? what.bytes.size() + 1 : 0);
  }
  reply out;
  out.body = kDeclaration;
  out.body += "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">";
  std::size_t count = 0;
  std::string last;
  for (const auto& [name, size] : found) {
    if (!after.empty() && name <= after) continue;
    if (count++ == kPage) break;
    last = name;
    out.body += size == 0 ? "<CommonPrefixes>" : "<Contents>";
    append(out.body, size == 0 ? "Prefix" : "Key", name);
    if (size != 0) append(out.body, "Size", std::to_string(size - 1));
    out.body += size == 0 ? "</CommonPrefixes>" : "</Contents>";
  }
  append(out.body, "IsTruncated", count > kPage ? "true" : "false");
  if (count > kPage) append(out.body, "NextContinuationToken", last);
  out.body += "</ListBucketResult>";
  return out;
}

}  // namespace penstock::test
