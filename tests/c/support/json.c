#include "json.h"

#include "check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
  const char *path, *text, *at;
} reader;

static json *value(reader *in);

static void fault(const reader *in, const char *what) {
  int line = 1;
  for (const char *c = in->text; c < in->at; c++) {
    line += *c == '\n';
  }
  check_failed(in->path, line, "%s", what);
}

static char next(reader *in) {
  in->at += strspn(in->at, " \t\r\n");
  return *in->at;
}

static void expect(reader *in, const char *word) {
  next(in);
  if (strncmp(in->at, word, strlen(word)) != 0) {
    fault(in, word);
  }
  in->at += strlen(word);
}

static char *copy(const char *from, size_t length) {
  char *text = calloc(length + 1, 1);
  CHECK(text != NULL);
  return memcpy(text, from, length);
}

static json *node(json_kind kind) {
  json *node = calloc(1, sizeof *node);
  CHECK(node != NULL);
  node->kind = kind;
  return node;
}

/* A string; of the escapes only those of a single character, since the vectors are ASCII. */
static char *string(reader *in) {
  expect(in, "\"");
  char *text = copy(in->at, strcspn(in->at, "\n"));
  char *end = text;
  for (; *in->at != '"'; in->at++) {
    if (*in->at == '\\') {
      in->at++;
      if (strchr("\"\\/", *in->at) == NULL) {
        fault(in, "an escape that this reader does not know");
      }
    }
    if (*in->at == '\0' || *in->at == '\n') {
      fault(in, "a string without an end");
    }
    *end++ = *in->at;
  }
  *end = '\0';
  in->at++;
  return text;
}

static json *number(reader *in) {
  size_t length = strspn(in->at, "+-0123456789.eE");
  if (length == 0) {
    fault(in, "no value");
  }
  json *result = node(JSON_NUMBER);
  result->text = copy(in->at, length);
  in->at += length;
  return result;
}

static json *container(reader *in, json_kind kind, const char *open, const char *close) {
  json *result = node(kind);
  json **last = &result->first;
  expect(in, open);
  while (next(in) != *close) {
    if (last != &result->first) {
      expect(in, ",");
    }
    char *name = NULL;
    if (kind == JSON_OBJECT) {
      name = string(in);
      expect(in, ":");
    }
    *last = value(in);
    (*last)->name = name;
    last = &(*last)->next;
  }
  expect(in, close);
  return result;
}

static json *value(reader *in) {
  json *result;
  switch (next(in)) {
  case '{':
    return container(in, JSON_OBJECT, "{", "}");
  case '[':
    return container(in, JSON_ARRAY, "[", "]");
  case '"':
    result = node(JSON_STRING);
    result->text = string(in);
    return result;
  case 'n':
    expect(in, "null");
    return node(JSON_NULL);
  case 't':
    expect(in, "true");
    result = node(JSON_BOOL);
    result->truth = true;
    return result;
  case 'f':
    expect(in, "false");
    return node(JSON_BOOL);
  default:
    return number(in);
  }
}

static char *contents(const char *path) {
  FILE *file = fopen(path, "rb");
  if (file == NULL) {
    check_failed(path, 0, "%s", strerror(errno));
  }
  CHECK(fseek(file, 0, SEEK_END) == 0);
  long length = ftell(file);
  CHECK(length >= 0);
  rewind(file);
  char *text = calloc((size_t)length + 1, 1);
  CHECK(text != NULL);
  CHECK(fread(text, 1, (size_t)length, file) == (size_t)length);
  fclose(file);
  return text;
}

json *json_read(const char *path) {
  char *text = contents(path);
  reader in = {.path = path, .text = text, .at = text};
  json *result = value(&in);
  if (next(&in) != '\0') {
    fault(&in, "something after the end");
  }
  free(text);
  return result;
}

void json_free(json *node) {
  while (node != NULL) {
    json *following = node->next;
    json_free(node->first);
    free(node->name);
    free(node->text);
    free(node);
    node = following;
  }
}

const json *json_find(const json *object, const char *name) {
  for (const json *member = object->first; member != NULL; member = member->next) {
    if (strcmp(member->name, name) == 0) {
      return member;
    }
  }
  return NULL;
}

const json *json_get(const json *object, const char *name) {
  CHECK(object->kind == JSON_OBJECT);
  const json *member = json_find(object, name);
  if (member == NULL) {
    check_failed(__FILE__, __LINE__, "there is no member %s", name);
  }
  return member;
}

bool json_is_null(const json *object, const char *name) { return json_get(object, name)->kind == JSON_NULL; }

static const json *member_of(const json *object, const char *name, json_kind kind) {
  const json *member = json_get(object, name);
  if (member->kind != kind) {
    check_failed(__FILE__, __LINE__, "the member %s is of another kind", name);
  }
  return member;
}

bool json_bool(const json *object, const char *name) { return member_of(object, name, JSON_BOOL)->truth; }

double json_double(const json *object, const char *name) {
  return strtod(member_of(object, name, JSON_NUMBER)->text, NULL);
}

int64_t json_integer(const json *object, const char *name) {
  char *end;
  errno = 0;
  long long number = strtoll(member_of(object, name, JSON_NUMBER)->text, &end, 10);
  CHECK(*end == '\0' && errno == 0);
  return number;
}

const char *json_string(const json *object, const char *name) { return member_of(object, name, JSON_STRING)->text; }
