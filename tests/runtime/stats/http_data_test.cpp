#include <string>
#include <vector>

#include "runtime/stats/http.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

// Pages about folders, and the targets that were asked for.
struct DataPages {
  std::vector<std::string> asked;
  HttpPages pages;

  DataPages() {
    pages.text = "text";
    pages.data = [this](std::string_view target) -> HttpData {
      asked.emplace_back(target);
      if (target == "/data/wrong") return {"400 Bad Request", "y: what is wrong"};
      return {.body = "{}"};
    };
  }
  std::string get(const std::string& target, const std::string& headers = "", const std::string& method = "GET") {
    return http_response(method + ' ' + target + " HTTP/1.1\r\nHost: localhost\r\n" + headers, pages);
  }
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("http: a data page gets its path with the query, and is JSON") {
  DataPages data;
  const std::string answer = data.get("/data/runs?a=b%20c");
  CHECK(data.asked == std::vector<std::string>{"/data/runs?a=b%20c"});
  CHECK(answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/json"));
  CHECK(answer.ends_with("\r\n\r\n{}\n"));
  CHECK(data.get("/data/runs", "", "HEAD").ends_with("\r\n\r\n"));
}

TEST_CASE("http: a data page that refuses a request is an error with its reason") {
  DataPages data;
  const std::string answer = data.get("/data/wrong");
  CHECK(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"));
  CHECK(answer.ends_with("\r\n\r\n400 Bad Request: y: what is wrong\n"));
}

TEST_CASE("http: with data pages there are none of a run") {
  DataPages data;
  for (const char* path : {"/stats", "/metrics", "/stream", "/data", "/other"}) {
    CAPTURE(path);
    CHECK(has(data.get(path), "404 Not Found: there are /, /health, /figures.json and pages below /data/"));
  }
  CHECK(data.asked.empty());
  CHECK(has(data.get("/health"), "ok"));
  CHECK(has(data.get("/"), "text"));
}

TEST_CASE("http: data pages of another host or origin, and other methods, are not asked for") {
  DataPages data;
  CHECK(has(http_response("GET /data/runs HTTP/1.1\r\nHost: evil.example\r\n", data.pages), "421 "));
  CHECK(has(data.get("/data/runs", "Origin: http://evil.example\r\n"), "403 "));
  CHECK(has(data.get("/data/runs", "", "POST"), "405 "));
  CHECK(data.asked.empty());
}

TEST_CASE("http: without data pages /data/ is not found") {
  const HttpPages pages;
  CHECK(has(http_response("GET /data/runs HTTP/1.1\r\nHost: localhost\r\n", pages), "404 "));
}

TEST_CASE("http: the log is text, and empty where there is none") {
  HttpPages pages;
  const std::string request = "GET /log HTTP/1.1\r\nHost: localhost\r\n";
  CHECK(http_response(request, pages).ends_with("\r\n\r\n"));
  CHECK(http_response(request, pages).starts_with("HTTP/1.1 200 OK"));
  pages.log = [] { return std::string("a line\n"); };
  CHECK(has(http_response(request, pages), "Content-Type: text/plain"));
  CHECK(http_response(request, pages).ends_with("\r\n\r\na line\n"));
}
