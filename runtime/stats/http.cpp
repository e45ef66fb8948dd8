#include "runtime/stats/http.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <optional>
#include <system_error>
#include <vector>

namespace troupe {

namespace {

struct RequestLine {
  std::string_view method, target, version;
};

std::optional<RequestLine> parse_request_line(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  const size_t first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || last <= first + 1) return std::nullopt;
  const RequestLine request{line.substr(0, first), line.substr(first + 1, last - first - 1), line.substr(last + 1)};
  const bool method_ok = !request.method.empty() && std::all_of(request.method.begin(), request.method.end(),
                                                                [](char c) { return c >= 'A' && c <= 'Z'; });
  const bool target_ok =
      std::all_of(request.target.begin(), request.target.end(), [](char c) { return c > ' ' && c < 0x7f; });
  if (!method_ok || !target_ok || !request.version.starts_with("HTTP/")) return std::nullopt;
  return request;
}

std::string response(const std::string& status, const std::string& type, const std::string& body, bool with_body,
                     const std::string& more_headers = "") {
  return "HTTP/1.1 " + status + "\r\nContent-Type: " + type +
         "; charset=utf-8\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n" + more_headers +
         "Connection: close\r\n\r\n" + (with_body ? body : "");
}

bool equal_ignoring_case(std::string_view left, std::string_view right) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

// The values of a header, in order.
std::vector<std::string_view> header_values(std::string_view head, std::string_view name) {
  std::vector<std::string_view> values;
  for (size_t at = head.find('\n'); at != std::string_view::npos;) {
    const size_t next = head.find('\n', at + 1);
    const std::string_view line = head.substr(at + 1, next == std::string_view::npos ? next : next - at - 1);
    const size_t colon = line.find(':');
    if (colon != std::string_view::npos && equal_ignoring_case(line.substr(0, colon), name))
      values.push_back(trimmed(line.substr(colon + 1)));
    at = next;
  }
  return values;
}

// Whether every line of the head after the first, up to an empty one, is a header: a name of token characters, then a
// colon. White space before the colon and folded lines are refused, because programs interpret them differently (RFC
// 9112, 5.1 and 5.2).
bool are_headers(std::string_view head) {
  constexpr std::string_view kMarks = "!#$%&'*+-.^_`|~";
  const auto in_name = [&](unsigned char c) {
    return (c < 0x80 && std::isalnum(c) != 0) || kMarks.find(static_cast<char>(c)) != kMarks.npos;
  };
  for (size_t at = head.find('\n'); at != std::string_view::npos;) {
    const size_t next = head.find('\n', at + 1);
    std::string_view line = head.substr(at + 1, next == std::string_view::npos ? next : next - at - 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) return true;
    const std::string_view name = line.substr(0, line.find(':'));
    if (name.empty() || name.size() == line.size() || !std::ranges::all_of(name, in_name)) return false;
    at = next;
  }
  return true;
}

bool is_address(int family, std::string_view text) {
  in6_addr address{};
  return inet_pton(family, std::string(text).c_str(), &address) == 1;
}

// Whether `text` is empty, ":" or ":" and a port.
bool is_port(std::string_view text) {
  if (text.empty() || text == ":") return true;
  uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data() + 1, text.data() + text.size(), port);
  return text[0] == ':' && error == std::errc() && end == text.data() + text.size();
}

// Whether a comma-separated header contains `wanted`, with whatever parameters.
bool lists(std::string_view head, std::string_view name, std::string_view wanted) {
  for (std::string_view value : header_values(head, name))
    while (!value.empty()) {
      const size_t end = std::min(value.find(','), value.size());
      const std::string_view item = trimmed(value.substr(0, std::min(value.find(';'), end)));
      if (equal_ignoring_case(item, wanted)) return true;
      value.remove_prefix(std::min(end + 1, value.size()));
    }
  return false;
}

// Whether "HOST" or "HOST:PORT" has an IP address, localhost or a name of this machine. An attacker's DNS server could
// make any other name lead to this machine.
bool is_trusted_host(std::string_view authority, const std::vector<std::string>& own_hosts) {
  std::string_view host = authority, port;
  if (authority.starts_with('[')) {
    const size_t end = authority.find(']');
    if (end == std::string_view::npos) return false;
    host = authority.substr(1, end - 1);
    port = authority.substr(end + 1);
  } else if (const size_t colon = authority.find(':'); colon != std::string_view::npos) {
    host = authority.substr(0, colon);
    port = authority.substr(colon);
  }
  if (!is_port(port) || host.empty()) return false;
  if (authority.starts_with('[')) return is_address(AF_INET6, host);
  if (is_address(AF_INET, host) || equal_ignoring_case(host, "localhost")) return true;
  return std::ranges::any_of(own_hosts, [&](const std::string& own) { return equal_ignoring_case(host, own); });
}

const std::string kTrustedHosts =
    " must be localhost, an IP address, the host that this port was opened on, or, where that is no loopback address, "
    "the name of this machine";

// The answer to a request that names another host; empty when it does not.
std::string refuse_host(std::string_view head, const std::vector<std::string>& own_hosts) {
  const auto hosts = header_values(head, "host");
  if (hosts.size() > 1) return http_error("400 Bad Request", "more than one Host header");
  for (const std::string_view host : hosts)
    if (!is_trusted_host(host, own_hosts)) return http_error("421 Misdirected Request", "the Host" + kTrustedHosts);
  for (std::string_view origin : header_values(head, "origin")) {
    const size_t scheme = origin.find("://");
    if (scheme == std::string_view::npos || !is_trusted_host(origin.substr(scheme + 3), own_hosts))
      return http_error("403 Forbidden", "the Origin" + kTrustedHosts);
  }
  return "";
}

// The answer to a request that cannot be answered in any other way; empty if it can.
std::string refuse(std::string_view head, const std::vector<std::string>& own_hosts) {
  const auto request = parse_request_line(head.substr(0, head.find('\n')));
  if (!request) return http_error("400 Bad Request");
  if (!request->version.starts_with("HTTP/1.")) return http_error("505 HTTP Version Not Supported");
  if (!are_headers(head)) return http_error("400 Bad Request");
  return refuse_host(head, own_hosts);
}

std::string path_of(const RequestLine& request) {
  return std::string(request.target.substr(0, request.target.find('?')));
}

std::string not_found(bool with_data = false) {
  return http_error("404 Not Found", with_data
                                         ? "there are /, /health, /figures.json and pages below /data/"
                                         : "there are /, /health, /stats, /figures.json, /metrics, /log and /stream");
}

std::string data_response(std::string_view target, const HttpPages& pages, bool with_body) {
  if (!target.starts_with("/data/")) return not_found(/*with_data=*/true);
  const HttpData data = pages.data(target);
  if (!data.status.starts_with("200")) return http_error(data.status, data.body);
  return response(data.status, "application/json", data.body + '\n', with_body);
}

// No other page may show it in a frame; what it loads is limited by itself.
constexpr const char* kPageHeaders =
    "Content-Encoding: gzip\r\nVary: Accept, Accept-Encoding\r\nX-Frame-Options: DENY\r\n"
    "Content-Security-Policy: frame-ancestors 'none'\r\nReferrer-Policy: no-referrer\r\n";

}  // namespace

bool is_http_request_line(std::string_view line) { return parse_request_line(line).has_value(); }

std::string http_error(const std::string& status, const std::string& reason) {
  return response(status, "text/plain", status + (reason.empty() ? "" : ": " + reason) + '\n', true);
}

std::string http_response(std::string_view head, const HttpPages& pages) {
  if (std::string refused = refuse(head, pages.own_hosts); !refused.empty()) return refused;
  const RequestLine request = *parse_request_line(head.substr(0, head.find('\n')));
  if (request.method != "GET" && request.method != "HEAD")
    return response("405 Method Not Allowed", "text/plain", "405 Method Not Allowed\n", true, "Allow: GET, HEAD\r\n");
  const bool body = request.method == "GET";
  const std::string path = path_of(request);
  if (path == "/") {
    const bool browser = lists(head, "accept", "text/html") && lists(head, "accept-encoding", "gzip");
    if (browser && !pages.html_gz.empty())
      return response("200 OK", "text/html", std::string(pages.html_gz), body, kPageHeaders);
    return response("200 OK", "text/plain", pages.text, body);
  }
  if (path == "/health") return response("200 OK", "text/plain", "ok\n", body);
  if (path == "/figures.json") return response("200 OK", "application/json", pages.figures + '\n', body);
  if (pages.data) return data_response(request.target, pages, body);
  if (path == "/stats") return response("200 OK", "application/json", pages.stats() + '\n', body);
  if (path == "/log") return response("200 OK", "text/plain", pages.log ? pages.log() : "", body);
  if (path == "/metrics") {
    const bool open_metrics = lists(head, "accept", "application/openmetrics-text");
    const std::string type = open_metrics ? "application/openmetrics-text; version=1.0.0" : "text/plain; version=0.0.4";
    return response("200 OK", type, pages.metrics(open_metrics), body);
  }
  if (path == "/stream")
    return response("426 Upgrade Required", "text/plain", "426 Upgrade Required: /stream is a WebSocket\n", true,
                    "Upgrade: websocket\r\n");
  return not_found();
}

bool asks_for_data(std::string_view head) {
  const auto request = parse_request_line(head.substr(0, head.find('\n')));
  return request && request->target.starts_with("/data/");
}

bool asks_for_websocket(std::string_view head) { return lists(head, "upgrade", "websocket"); }

std::string refuse_websocket(std::string_view head, const std::vector<std::string>& own_hosts) {
  if (std::string refused = refuse(head, own_hosts); !refused.empty()) return refused;
  const RequestLine request = *parse_request_line(head.substr(0, head.find('\n')));
  if (path_of(request) != "/stream") return not_found();
  const auto hosts = header_values(head, "host");
  for (const std::string_view origin : header_values(head, "origin"))
    if (hosts.empty() || !equal_ignoring_case(origin.substr(origin.find("://") + 3), hosts.front()))
      return http_error("403 Forbidden", "the Origin must be this page");
  return "";
}

}  // namespace troupe
