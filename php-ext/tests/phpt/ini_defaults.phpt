--TEST--
The settings, their defaults, and where they may be changed
--FILE--
<?php
foreach (ini_get_all('ratelimit') as $name => $setting) {
    printf("%s = '%s', access %d\n", $name, $setting['global_value'], $setting['access']);
}
var_dump(ini_set('ratelimit.global_token_bucket', '0'));
var_dump(ini_set('ratelimit.store', 'memory:'), ini_get('ratelimit.store'));
ini_restore('ratelimit.store');
var_dump(ini_get('ratelimit.store'));
?>
--EXPECT--
ratelimit.global_token_bucket = '1', access 4
ratelimit.store = '', access 7
bool(false)
string(0) ""
string(7) "memory:"
string(0) ""
