/* Reads the JSON of the vectors: a whole file into a tree, whose nodes are found by name or number. */
#ifndef JSON_H
#define JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT } json_kind;

typedef struct json {
  json_kind kind;
  char *name;          /* as a member of an object */
  char *text;          /* of a string, or of a number as written */
  bool truth;          /* of a bool */
  struct json *first;  /* of an array or object */
  struct json *next;   /* in the same array or object */
} json;

/* Reads a file; ends the running test with its name and the place of the fault if it is none. */
json *json_read(const char *path);

void json_free(json *node);

/* A member of an object, NULL without it. */
const json *json_find(const json *object, const char *name);

/* A member that must be there, as what it must be. */
const json *json_get(const json *object, const char *name);
bool json_is_null(const json *object, const char *name);
bool json_bool(const json *object, const char *name);
double json_double(const json *object, const char *name);
int64_t json_integer(const json *object, const char *name);
const char *json_string(const json *object, const char *name);

#endif
