// The HTTP part of runtime/stats_protocol.h.

#include <algorithm>

#include "runtime/stats_protocol.h"

namespace troupe {

namespace {

struct RequestLine {
  std::string_view method, target, version;
};

std::optional<RequestLine> parse_request_line(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  const size_t first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || last <= first + 1) return std::nullopt;
  const RequestLine parts{line.substr(0, first), line.substr(first + 1, last - first - 1), line.substr(last + 1)};
  const bool method_ok = !parts.method.empty() && std::all_of(parts.method.begin(), parts.method.end(),
                                                              [](char c) { return c >= 'A' && c <= 'Z'; });
  const bool target_ok =
      std::all_of(parts.target.begin(), parts.target.end(), [](char c) { return c > ' ' && c < 0x7f; });
  if (!method_ok || !target_ok || !parts.version.starts_with("HTTP/")) return std::nullopt;
  return parts;
}

std::string response(const std::string& status, const std::string& type, const std::string& body, bool with_body,
                     const std::string& more_headers = "") {
  return "HTTP/1.1 " + status + "\r\nContent-Type: " + type +
         "; charset=utf-8\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n" + more_headers +
         "Connection: close\r\n\r\n" + (with_body ? body : "");
}

}  // namespace

bool is_http_request_line(std::string_view line) { return parse_request_line(line).has_value(); }

std::string http_error(const std::string& status) { return response(status, "text/plain", status + "\n", true); }

std::string http_response(std::string_view head, const std::string& page, const std::string& stats) {
  const auto request = parse_request_line(head.substr(0, head.find('\n')));
  if (!request) return http_error("400 Bad Request");
  if (!request->version.starts_with("HTTP/1.")) return http_error("505 HTTP Version Not Supported");
  if (request->method != "GET" && request->method != "HEAD")
    return response("405 Method Not Allowed", "text/plain", "405 Method Not Allowed\n", true, "Allow: GET, HEAD\r\n");
  const bool with_body = request->method == "GET";
  const std::string_view path = request->target.substr(0, request->target.find('?'));
  if (path == "/") return response("200 OK", "text/plain", page, with_body);
  if (path == "/stats") return response("200 OK", "application/json", stats + '\n', with_body);
  return response("404 Not Found", "text/plain", "404 Not Found: there are / and /stats\n", with_body);
}

}  // namespace troupe
