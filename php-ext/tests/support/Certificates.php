<?php

declare(strict_types=1);

namespace RateLimit\Tests;

/**
 * An authority of a test's own, a server's certificate for `localhost` and 127.0.0.1, and a client's, as PEM files.
 */
final class Certificates
{
    private readonly string $folder;

    public function __construct()
    {
        $this->folder = Wait::folder();
        file_put_contents($this->path('openssl.cnf'), <<<CONF
            [req]
            distinguished_name = subject
            [subject]
            [ca]
            basicConstraints = critical,CA:TRUE
            [server]
            subjectAltName = DNS:localhost,IP:127.0.0.1
            extendedKeyUsage = serverAuth
            [client]
            extendedKeyUsage = clientAuth
            CONF);
        [$authority, $key] = $this->make('ca', null, null);
        $this->make('server', $authority, $key);
        $this->make('client', $authority, $key);
    }

    /**
     * The path of `ca.pem`, `server.pem`, `server.key`, `client.pem` or `client.key`.
     */
    public function path(string $name): string
    {
        return "{$this->folder}/{$name}";
    }

    /**
     * Options for a server that takes encrypted connections on a port, with clients' certificates checked or not.
     *
     * @return list<string>
     */
    public function serverOptions(int $port, bool $asksClients): array
    {
        return [
            '--tls-port', (string) $port, '--tls-auth-clients', $asksClients ? 'yes' : 'no', '--tls-ca-cert-file',
            $this->path('ca.pem'), '--tls-cert-file', $this->path('server.pem'), '--tls-key-file', $this->path('server.key'),
        ];
    }

    /**
     * @return array{\OpenSSLCertificate, \OpenSSLAsymmetricKey}
     */
    private function make(string $name, ?\OpenSSLCertificate $authority, ?\OpenSSLAsymmetricKey $authorityKey): array
    {
        $options = [
            'config' => $this->path('openssl.cnf'), 'digest_alg' => 'sha256', 'x509_extensions' => $name,
            // PHP wants the number of bits also where the curve says it.
            'private_key_type' => OPENSSL_KEYTYPE_EC, 'curve_name' => 'prime256v1', 'private_key_bits' => 2048,
        ];
        $key = openssl_pkey_new($options);
        // Each authority has a name of its own, by which certificates say who issued them.
        $request = openssl_csr_new(['commonName' => "{$name} of {$this->folder}"], $key, $options);
        $certificate = openssl_csr_sign($request, $authority, $authorityKey ?? $key, 1, $options, random_int(1, 1 << 30));
        openssl_x509_export_to_file($certificate, $this->path("{$name}.pem"));
        openssl_pkey_export_to_file($key, $this->path("{$name}.key"), null, $options);
        return [$certificate, $key];
    }
}
