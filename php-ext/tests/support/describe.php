<?php

// Prints what Reflection says about the classes of the extension as JSON: of the loaded extension, or, with a folder of
// stubs as argument, of the classes declared there. Run in a process of its own, since the two cannot be loaded at once.

declare(strict_types=1);

if (isset($argv[1])) {
    $before = [...get_declared_classes(), ...get_declared_interfaces()];
    // Parents and interfaces come first, whatever the files are called.
    spl_autoload_register(static function (string $class) use ($argv): void {
        $file = $argv[1] . '/' . str_replace(['RateLimit\\', '\\'], ['', '/'], $class) . '.php';
        is_file($file) && require_once $file;
    });
    foreach (new RecursiveIteratorIterator(new RecursiveDirectoryIterator($argv[1])) as $file) {
        $file->getExtension() === 'php' && require_once $file->getPathname();
    }
    $classes = array_diff([...get_declared_classes(), ...get_declared_interfaces()], $before);
} else {
    $classes = (new ReflectionExtension('ratelimit'))->getClassNames();
}

$described = [];
foreach ($classes as $name) {
    $described[$name] = describe_class(new ReflectionClass($name));
}
ksort($described);
echo json_encode($described, JSON_PRETTY_PRINT | JSON_UNESCAPED_SLASHES | JSON_THROW_ON_ERROR);

function describe_class(ReflectionClass $class): array
{
    $interfaces = $class->getInterfaceNames();
    sort($interfaces);
    $own = static fn ($member) => $member->getDeclaringClass()->getName() === $class->getName();
    $methods = $properties = [];
    foreach (array_filter($class->getMethods(), $own) as $method) {
        $methods[$method->getName()] = describe_method($method);
    }
    foreach (array_filter($class->getProperties(), $own) as $property) {
        $properties[$property->getName()] = [
            'modifiers' => implode(' ', Reflection::getModifierNames($property->getModifiers())),
            'type' => (string) $property->getType(),
            'default' => var_export($property->getDefaultValue(), true),
        ];
    }
    ksort($methods);
    return [
        'modifiers' => implode(' ', Reflection::getModifierNames($class->getModifiers())),
        'interface' => $class->isInterface(),
        'parent' => $class->getParentClass() ? $class->getParentClass()->getName() : null,
        'interfaces' => $interfaces,
        'constants' => $class->getConstants(),
        'methods' => $methods,
        'properties' => $properties,
    ];
}

function describe_method(ReflectionMethod $method): array
{
    $parameters = [];
    foreach ($method->getParameters() as $parameter) {
        $parameters[] = [
            'name' => $parameter->getName(),
            'type' => describe_type($parameter->getType(), $method),
            'optional' => $parameter->isOptional(),
            'default' => $parameter->isDefaultValueAvailable() ? var_export($parameter->getDefaultValue(), true) : null,
            'by reference' => $parameter->isPassedByReference(),
            'variadic' => $parameter->isVariadic(),
        ];
    }
    return [
        'modifiers' => implode(' ', Reflection::getModifierNames($method->getModifiers())),
        'parameters' => $parameters,
        'returns' => describe_type($method->getReturnType(), $method),
    ];
}

function describe_type(?ReflectionType $type, ReflectionMethod $method): string
{
    if ($type instanceof ReflectionUnionType) {
        $names = array_map('strval', $type->getTypes());
        sort($names);
        return implode('|', $names);
    }
    return str_replace('self', $method->getDeclaringClass()->getName(), (string) $type);
}
