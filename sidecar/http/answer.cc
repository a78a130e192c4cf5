#include "sidecar/http/answer.h"

namespace larder::http {
namespace {

std::string_view reason(int http_status) {
  switch (http_status) {
    case 400: return "Bad Request";
    case 411: return "Length Required";
    case 413: return "Payload Too Large";
    case 415: return "Unsupported Media Type";
    case 431: return "Request Header Fields Too Large";
    default: return "Error";
  }
}

}  // namespace

std::string plain_answer(int http_status, std::string_view text) {
  const std::string body = std::string(text) + "\n";
  return "HTTP/1.1 " + std::to_string(http_status) + " " + std::string(reason(http_status)) +
         "\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" +
         body;
}

}  // namespace larder::http
