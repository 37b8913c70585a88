// Sftest runs a simulated Salesforce org, for demonstrations and shell tests.
// It prints its URL as the first line of standard output, and that of its event
// bus, if there is one, as the second, and runs until it is asked to stop. It is
// never installed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"sf2loki/pkg/sftest"
)

type options struct {
	org  sftest.Config
	fill sftest.Believable
	dir  string
	skew time.Duration
	logs int

	bus    sftest.BusConfig // Listen empty: none
	events int
	span   time.Duration
	rate   float64
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	o, err := parse(os.Args[1:])
	if err == nil {
		err = run(ctx, o, os.Stdout)
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintf(os.Stderr, "sftest: %v\n", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	var o options
	var types string
	fs := flag.NewFlagSet("sftest", flag.ContinueOnError)
	fs.StringVar(&o.org.Listen, "listen", "127.0.0.1:0", "address to listen on")
	fs.StringVar(&o.dir, "dir", "", "directory for client-id, client-secret, username, private-key.pem, url and manifest.json")
	fs.StringVar(&types, "types", "", "event types, separated by commas")
	fs.IntVar(&o.fill.Hours, "hours", 4, "full hours before now that have hourly files")
	fs.IntVar(&o.fill.Rows, "rows", 200, "rows of each hour and type")
	fs.Uint64Var(&o.fill.Seed, "seed", 1, "another seed makes other rows")
	fs.IntVar(&o.fill.Awkward, "awkward", 50, "every so many rows one that is hard to read; 0: none")
	fs.BoolVar(&o.fill.Poison, "poison", false, "some rows are too old, too new or too long for a log store")
	fs.BoolVar(&o.fill.Late, "late", false, "every third hour has a late second file that repeats some rows")
	fs.BoolVar(&o.fill.Daily, "daily", false, "add daily files of the whole days")
	fs.BoolVar(&o.org.Sandbox, "sandbox", false, "a sandbox: wants test.salesforce.com as the audience")
	fs.BoolVar(&o.org.LenientLogin, "lenient-login", false, "takes its own URL as the audience too, and assertions for 5 minutes, as many orgs do")
	fs.BoolVar(&o.org.NoHourly, "no-hourly", false, "an org without hourly files")
	fs.BoolVar(&o.org.Gzip, "gzip", true, "compress for clients that accept it")
	fs.IntVar(&o.org.PageSize, "page-size", 2000, "records of a query page")
	fs.Int64Var(&o.org.DailyCalls, "daily-calls", 100_000, "API calls of a day")
	fs.DurationVar(&o.org.TokenLife, "token-life", 2*time.Hour, "life of an unused session")
	fs.StringVar(&o.bus.Listen, "pubsub-listen", "", "address of the event bus; empty: none")
	fs.BoolVar(&o.bus.TLS, "pubsub-tls", false, "serve the event bus with TLS, by the CA in pubsub-ca.pem of --dir")
	fs.DurationVar(&o.bus.Keepalive, "pubsub-keepalive", 0, "longest silence of a stream; 0: 270s")
	fs.DurationVar(&o.bus.ZeroCredit, "pubsub-zero-credit", 0, "how long a stream stays open without credit; 0: 60s")
	fs.DurationVar(&o.bus.Retention, "pubsub-retention", 0, "how long events are kept; 0: 72h")
	fs.IntVar(&o.events, "events", 100, "events on each topic at the start")
	fs.DurationVar(&o.span, "event-span", time.Hour, "time before now that they are spread over")
	fs.Float64Var(&o.rate, "event-rate", 0, "events a second that are published from then on")
	fs.IntVar(&o.logs, "debug-logs", 0, "debug logs of each of alice@acme.example and bob@acme.example, of the hour before this one")
	fs.DurationVar(&o.skew, "skew", 0, "by how much the org's clock is ahead")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if types != "" {
		o.fill.Types = strings.Split(types, ",")
	}
	known := map[string]bool{}
	for _, t := range sftest.Types() {
		known[t] = true
	}
	for _, t := range o.fill.Types {
		if !known[t] {
			return o, fmt.Errorf("unknown event type %q: there are %s", t, strings.Join(sftest.Types(), ", "))
		}
	}
	return o, nil
}

func run(ctx context.Context, o options, stdout io.Writer) error {
	org, err := sftest.Start(o.org)
	if err != nil {
		return err
	}
	defer org.Close()
	org.SetSkew(o.skew)
	manifest := org.Fill(o.fill)
	if o.logs > 0 {
		addLogs(org, o.logs)
	}
	bus, err := o.startBus(ctx, org)
	if err != nil {
		return err
	}
	if o.dir != "" {
		if err := write(o.dir, org, bus, manifest); err != nil {
			return err
		}
	}
	if _, err := fmt.Fprintln(stdout, org.URL); err != nil {
		return err
	}
	if bus != nil {
		if _, err := fmt.Fprintln(stdout, endpoint(bus)); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}

// addLogs gives the org two users whose debug logs are written, and logs.
func addLogs(org *sftest.Org, n int) {
	org.DefineObjects()
	end := org.Now().Truncate(time.Hour)
	for _, name := range []string{"alice@acme.example", "bob@acme.example"} {
		id := org.Insert("User", sftest.Row{"Username": name, "Name": name})[0]
		org.AddTraceFlag(id, end.Add(12*time.Hour))
		for i := range n {
			org.AddApexLog(sftest.ApexLog{Start: end.Add(-time.Duration(i+1) * time.Hour / time.Duration(n+1)), User: id, Body: fmt.Sprintf("62.0 APEX_CODE,DEBUG\nlog %d of %s\n", i+1, name)})
		}
	}
}

// startBus starts the event bus that was asked for, with events on it.
func (o *options) startBus(ctx context.Context, org *sftest.Org) (*sftest.Bus, error) {
	if o.bus.Listen == "" {
		return nil, nil
	}
	bus, err := org.StartBus(o.bus)
	if err != nil {
		return nil, err
	}
	bus.DefineSamples()
	bus.Fill(o.events, o.span)
	go bus.Live(ctx, o.events, o.rate)
	return bus, nil
}

// endpoint is the bus's address as clients take it.
func endpoint(b *sftest.Bus) string {
	if b.CA != "" {
		return "https://" + b.Addr
	}
	return "http://" + b.Addr
}

// write leaves what a client of the org needs.
func write(dir string, org *sftest.Org, bus *sftest.Bus, m sftest.Manifest) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	files := map[string]string{
		"client-id": org.ClientID, "client-secret": org.ClientSecret, "username": org.Username, "org-id": org.ID,
		"private-key.pem": org.PrivateKeyPEM(), "url": org.URL, "manifest.json": string(data),
	}
	if bus != nil {
		files["pubsub-endpoint"] = endpoint(bus)
		if bus.CA != "" {
			files["pubsub-ca.pem"] = bus.CA
		}
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.TrimSuffix(text, "\n")+"\n"), 0o600); err != nil {
			return err
		}
	}
	return nil
}
