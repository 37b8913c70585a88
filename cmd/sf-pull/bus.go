package main

import (
	"crypto/tls"
	"crypto/x509"
	"flag"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc/grpclog"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/pubsub"
	"sf2loki/pkg/sysexits"
)

// busFlags say where the event bus is.
type busFlags struct{ endpoint, caFile string }

const (
	pubsubHost = "api.pubsub.salesforce.com"
	pubsubPort = "7443"
)

func (f *busFlags) register(fs *flag.FlagSet) {
	fs.StringVar(&f.endpoint, "endpoint", pubsubHost+":"+pubsubPort, "`HOST:PORT` of the Pub/Sub API; with http:// in front: without TLS")
	fs.StringVar(&f.caFile, "ca-file", "", "trust the certificates of `FILE`, PEM, instead of the system's, for the Pub/Sub API")
}

// parse tells the endpoint, and warns of one that is not TLS.
func (f *busFlags) parse(app *cli.App) (pubsub.Endpoint, error) {
	e, err := parseEndpoint(f.endpoint)
	if err != nil {
		return e, err
	}
	if e.Plaintext && f.caFile != "" {
		return e, cli.Usagef("--ca-file has no meaning with an --endpoint without TLS")
	}
	if host, _, _ := net.SplitHostPort(e.Addr); e.Plaintext && !isLoopback(host) {
		app.Log.Warn("the endpoint is not TLS: the session travels in the clear", "endpoint", e.Addr)
	}
	if f.caFile != "" {
		e.TLS, err = trust(f.caFile)
	}
	return e, err
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// parseEndpoint reads HOST, HOST:PORT, https:// and http:// with either.
func parseEndpoint(text string) (pubsub.Endpoint, error) {
	shown := text[strings.LastIndexByte(text, '@')+1:] // without a password
	bad := cli.Usagef("--endpoint %q: want HOST:PORT, as %s:%s", shown, pubsubHost, pubsubPort)
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		scheme, rest = "https", text
	}
	u, err := url.Parse("//" + strings.TrimSuffix(rest, "/"))
	if err != nil || u.Hostname() == "" || u.User != nil || u.Path != "" || u.RawQuery != "" || !slices.Contains([]string{"http", "https"}, scheme) {
		return pubsub.Endpoint{}, bad
	}
	port := u.Port()
	if port == "" {
		port = pubsubPort
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return pubsub.Endpoint{}, bad
	}
	return pubsub.Endpoint{Addr: net.JoinHostPort(u.Hostname(), port), Plaintext: scheme == "http"}, nil
}

func trust(file string) (*tls.Config, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, sysexits.Errorf(sysexits.Config, "--ca-file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, sysexits.Errorf(sysexits.Config, "--ca-file: %s holds no certificate in PEM", file)
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}

// silenceGRPC keeps gRPC from writing on standard error by itself: all that it
// says comes back as errors.
func silenceGRPC() { grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard)) }
