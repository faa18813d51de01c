/* Calls an API by libcurl and keeps under its limits: waits before they are met, and sends again what was refused.
 *
 *   cc governor.c $(pkg-config --cflags --libs ratelimit libcurl) -o governor
 *   ./governor default https://api.example.com/things 20
 */
#include <curl/curl.h>
#include <ratelimit.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_HEADERS 64
#define MAX_BODY 4096

/* What came back: the lines of the header, and the beginning of the body. */
struct answer {
  rl_header headers[MAX_HEADERS];
  size_t headers_len;
  char text[16384];
  size_t text_len;
  uint8_t body[MAX_BODY];
  size_t body_len;
};

/* Keeps one line of the header as a name and a value. */
static size_t on_header(char *line, size_t size, size_t count, void *data) {
  struct answer *answer = data;
  size_t length = size * count;
  if (length >= 5 && strncmp(line, "HTTP/", 5) == 0) answer->headers_len = answer->text_len = 0;
  const char *colon = memchr(line, ':', length);
  if (colon == NULL || answer->headers_len == MAX_HEADERS || answer->text_len + length + 2 > sizeof answer->text) {
    return length;
  }
  char *name = answer->text + answer->text_len;
  size_t name_len = (size_t)(colon - line);
  memcpy(name, line, name_len);
  name[name_len] = '\0';
  char *value = name + name_len + 1;
  size_t value_len = length - name_len - 1;
  memcpy(value, colon + 1, value_len);
  while (value_len > 0 && strchr("\r\n \t", value[value_len - 1]) != NULL) value_len--;
  value[value_len] = '\0';
  answer->text_len += name_len + value_len + 2;
  answer->headers[answer->headers_len].name = name;
  answer->headers[answer->headers_len].value = value;
  answer->headers_len++;
  return length;
}

/* Reads the body to its end, so that the connection can be used again, and keeps its beginning. */
static size_t on_body(char *data, size_t size, size_t count, void *user) {
  struct answer *answer = user;
  size_t length = size * count, room = MAX_BODY - answer->body_len;
  size_t kept = length < room ? length : room;
  memcpy(answer->body + answer->body_len, data, kept);
  answer->body_len += kept;
  return length;
}

static void nap(uint64_t us) {
  struct timespec left = {.tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000) * 1000};
  while (nanosleep(&left, &left) != 0) {
  }
}

/* Gets a URL, with all the waits and retries it takes. The status, or 0 when it was given up. */
static long get(CURL *curl, rl_governor *governor, const char *url) {
  rl_ticket *ticket = NULL;
  rl_advice advice;
  long status = 0;
  if (rl_governor_before(governor, "GET", url, NULL, &ticket, &advice) != RL_OK) goto failed;
  for (;;) {
    while (advice.step == RL_STEP_WAIT || advice.step == RL_STEP_RETRY) {
      nap(advice.delay_us);
      if (rl_governor_resume(governor, ticket, &advice) != RL_OK) goto failed;
    }
    if (advice.step != RL_STEP_SEND) break;
    static struct answer answer;
    answer.headers_len = answer.text_len = answer.body_len = 0;
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(curl, CURLOPT_HEADERDATA, &answer);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &answer);
    CURLcode sent = curl_easy_perform(curl);
    if (sent != CURLE_OK) {
      fprintf(stderr, "%s\n", curl_easy_strerror(sent));
      rl_governor_abandon(governor, ticket);
      break;
    }
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    if (rl_governor_after(governor, ticket, (uint16_t)status, answer.headers, answer.headers_len, answer.body,
                          answer.body_len, &advice) != RL_OK) {
      goto failed;
    }
    if (advice.step == RL_STEP_RETURN) break;
  }
  if (advice.step == RL_STEP_REFUSE || advice.step == RL_STEP_FAIL) {
    fprintf(stderr, "given up: it might pass in %.3f s\n", (double)advice.delay_us / 1e6);
    status = 0;
  }
  rl_ticket_free(ticket);
  return status;

failed:
  fprintf(stderr, "%s\n", rl_last_error());
  rl_ticket_free(ticket);
  return 0;
}

int main(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: %s PRESET URL COUNT\n", argv[0]);
    return 2;
  }
  rl_store *store = NULL;
  rl_governor *governor = NULL;
  if (rl_store_open(NULL, &store) != RL_OK || rl_governor_new(argv[1], store, NULL, &governor) != RL_OK) {
    fprintf(stderr, "%s\n", rl_last_error());
    rl_store_free(store);
    return 1;
  }
  curl_global_init(CURL_GLOBAL_DEFAULT);
  CURL *curl = curl_easy_init();
  int fine = 0, count = atoi(argv[3]);
  for (int number = 0; number < count; number++) fine += get(curl, governor, argv[2]) == 200;
  printf("%d of %d\n", fine, count);
  curl_easy_cleanup(curl);
  curl_global_cleanup();
  rl_governor_free(governor);
  rl_store_free(store);
  return fine == count ? 0 : 1;
}
