#pragma once
// The HTTP that the statistics port speaks: GET and HEAD of a few pages, and the check of a request for a WebSocket.
// Plain functions; any thread.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

// A page of JSON, or an error status with "what is wrong" as its body.
struct HttpData {
  std::string status = "200 OK";
  std::string body;
};
// Answers a path that begins with "/data/", with the query: "/data/runs?since=3".
using HttpDataPages = std::function<HttpData(std::string_view target)>;

struct HttpPages {
  std::string text;                          // "/", for programs
  std::string_view html_gz;                  // "/", for browsers: an HTML page, compressed by gzip; empty = none
  std::function<std::string()> stats;        // "/stats", JSON
  std::function<std::string(bool)> metrics;  // "/metrics", in the format of OpenMetrics or not
  std::function<std::string()> log;          // "/log", text; may be empty
  HttpDataPages data;                        // if given, these take the place of /stats, /metrics and /stream
  std::string figures = "[]";                // "/figures.json", the table of the figures
  std::vector<std::string> own_hosts;        // names that a request may give for this machine
};

// Whether a line is the first of an HTTP request: "GET /stats HTTP/1.1".
bool is_http_request_line(std::string_view line);

// The complete answer to a request head (request line and headers): GET and HEAD of the pages, an error status for all
// else. A request whose Host or Origin is neither localhost, an IP address nor one of `own_hosts` is refused: a web
// page whose host name was made to resolve to this machine must not read a run's figures.
std::string http_response(std::string_view head, const HttpPages& pages);

// An answer with a status, such as "431 Request Header Fields Too Large", and perhaps the reason.
std::string http_error(const std::string& status, const std::string& reason = "");

// Whether a request head asks for a page below "/data/".
bool asks_for_data(std::string_view head);
// Whether a request head asks for a WebSocket.
bool asks_for_websocket(std::string_view head);
// The complete answer to a request for a WebSocket that is refused; empty if it may be accepted. Refused are other
// paths than "/stream", what http_response() refuses, and pages of another origin: a browser lets them read a
// WebSocket.
std::string refuse_websocket(std::string_view head, const std::vector<std::string>& own_hosts);

}  // namespace troupe
