package main

import (
	"flag"
	"strings"
	"time"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/loki"
)

// serverFlags say where to push.
type serverFlags struct {
	url, tenant, user, encoding, backfillShard string
	caFile, certFile, keyFile                  string
	password, token                            *cli.SecretFlag
	timeout                                    time.Duration
}

func (s *serverFlags) register(app *cli.App, fs *flag.FlagSet) {
	fs.StringVar(&s.url, "url", "", "Loki's `URL`, with or without a path")
	fs.StringVar(&s.tenant, "tenant", "", "tenant `ID`, sent as X-Scope-OrgID")
	fs.StringVar(&s.user, "user", "", "`NAME` for basic authentication")
	s.password = cli.Secret(app, fs, "password", "password for basic authentication")
	s.token = cli.Secret(app, fs, "token", "bearer token")
	fs.StringVar(&s.caFile, "ca-file", "", "trust the authorities in `FILE` instead of the system's")
	fs.StringVar(&s.certFile, "cert-file", "", "client certificate in `FILE`")
	fs.StringVar(&s.keyFile, "key-file", "", "its key in `FILE`")
	cli.EnumVar(fs, &s.encoding, "encoding", "protobuf", "body of requests, `FORM`", "protobuf", "json")
	fs.StringVar(&s.backfillShard, "backfill-shard", "", "mark pushes as backfill `NAME`, for which Loki takes any age")
	cli.DurationVar(fs, &s.timeout, "timeout", 30*time.Second, "longest `TIME` of one request")
}

func (s *serverFlags) client(app *cli.App, inFlight int) (*loki.Client, error) {
	cfg := loki.Config{
		URL: s.url, Tenant: s.tenant, User: s.user, CAFile: s.caFile, CertFile: s.certFile, KeyFile: s.keyFile,
		BackfillShard: s.backfillShard, Timeout: s.timeout, InFlight: inFlight, Log: app.Log, Secrets: app.Secrets,
	}
	if s.encoding == "json" {
		cfg.Encoding = loki.JSON
	}
	if s.password.Set() {
		cfg.Password = s.password.Value
	}
	if s.token.Set() {
		cfg.Token = s.token.Value
	}
	return loki.NewClient(cfg)
}

// limitFlags are what the server is expected to take.
type limitFlags struct {
	maxAge                      time.Duration
	labels, labelName, labelVal int
	metadata                    int
	metadataBytes               int64
}

func (l *limitFlags) register(fs *flag.FlagSet) {
	d := loki.DefaultLimits()
	cli.DurationVar(fs, &l.maxAge, "max-age", d.MaxAge, "oldest entries that the server takes, `AGE`; 0: any")
	fs.IntVar(&l.labels, "max-labels", d.Labels, "most labels of a stream that the server takes, `N`; 0: any number")
	fs.IntVar(&l.labelName, "max-label-name-bytes", d.LabelName, "longest name of a label, `N`; 0: any")
	fs.IntVar(&l.labelVal, "max-label-value-bytes", d.LabelValue, "longest value of a label, `N`; 0: any")
	fs.IntVar(&l.metadata, "max-metadata", d.Metadata, "most pairs of metadata of an entry, `N`; 0: any number")
	cli.SizeVar(fs, &l.metadataBytes, "max-metadata-bytes", int64(d.MetadataBytes), "most bytes of metadata of an entry, `SIZE`; 0: any")
}

func (l *limitFlags) limits() loki.Limits {
	return loki.Limits{
		Labels: l.labels, LabelName: l.labelName, LabelValue: l.labelVal, Metadata: l.metadata,
		MetadataBytes: int(l.metadataBytes), MaxAge: l.maxAge, MaxFuture: loki.DefaultLimits().MaxFuture,
	}
}

func cut(text string) (name, value string, ok bool) {
	name, value, ok = strings.Cut(text, "=")
	return name, value, ok && name != ""
}
