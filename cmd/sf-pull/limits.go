package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"sync"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"
	"github.com/prometheus/client_golang/prometheus"

	"sf2loki/pkg/backoff"
	"sf2loki/pkg/cli"
	"sf2loki/pkg/feed"
	"sf2loki/pkg/salesforce"
	"sf2loki/pkg/sysexits"
)

// limitsFlags are the flags of sf-pull limits.
type limitsFlags struct {
	orgFlags
	follow bool
	poll   time.Duration
}

func (f *limitsFlags) register(app *cli.App, fs *flag.FlagSet) {
	f.orgFlags.register(app, fs)
	jsonFlag(fs)
	fs.BoolVar(&f.follow, "follow", false, "go on until stopped, and ask every --poll")
	cli.DurationVar(fs, &f.poll, "poll", 5*time.Minute, "`TIME` between two questions")
}

func newLimits(app *cli.App) *ffcli.Command {
	fs := app.FlagSet("sf-pull limits")
	f := &limitsFlags{}
	f.register(app, fs)
	return &ffcli.Command{
		Name:       "limits",
		ShortUsage: "sf-pull limits [flags] > limits",
		ShortHelp:  "print the limits of the org and what is left of them, as a JSON object",
		FlagSet:    fs,
		Exec: func(ctx context.Context, args []string) error {
			if err := cli.NoOperands(args); err != nil {
				return err
			}
			if err := f.orgFlags.check(); err != nil {
				return err
			}
			if f.poll <= 0 {
				return cli.Usagef("--poll: it must be more than 0")
			}
			return stopped(app, f.run(app.WatchStdout(ctx), app))
		},
	}
}

// limitsWatch asks for the limits of an org.
type limitsWatch struct {
	app    *cli.App
	client *salesforce.Client
	failed *prometheus.CounterVec

	mu     sync.Mutex
	limits map[string]limit
}

// limit is an allowance of the org. Some that are listed have neither.
type limit struct{ Max, Remaining *float64 }

// callsLimit is the limit whose gauges every answer of the org sets.
const callsLimit = "DailyApiRequests"

func (w *limitsWatch) collect(s *cli.Samples) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, l := range w.limits {
		if l.Max != nil && l.Remaining != nil && name != callsLimit {
			s.Gauge("salesforce_limit_max", "Allowance of a limit of the org.", *l.Max, "limit_name", name)
			s.Gauge("salesforce_limit_remaining", "What is left of it.", *l.Remaining, "limit_name", name)
		}
	}
}

func (f *limitsFlags) run(ctx context.Context, app *cli.App) error {
	w := &limitsWatch{app: app}
	org := newOrgMetrics(app)
	app.Metrics.Collect(w.collect)
	w.failed = app.Metrics.Counter("salesforce_limits_poll_errors_total", "Questions for the limits that failed.")
	var err error
	if w.client, _, err = f.connect(ctx, app, org.hooks); err != nil {
		return err
	}
	for {
		err := w.ask(ctx)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil && !f.follow:
			return nil
		case err != nil && (!f.follow || sysexits.Of(err) == sysexits.IOErr || feed.Judge(err) == feed.Ends):
			return feed.Final(ctx, err)
		case err != nil:
			app.Log.Warn("the limits could not be had", "err", err)
		}
		if err := backoff.Sleep(ctx, f.poll); err != nil {
			return err
		}
	}
}

// ask prints the limits as Salesforce tells them, and has them in the metrics.
func (w *limitsWatch) ask(ctx context.Context) error {
	raw, err := w.client.Get(ctx, "limits/")
	if err != nil {
		w.failed.WithLabelValues().Inc()
		if salesforce.KindOf(err) == salesforce.KindPermission {
			err = sysexits.WithHint(err, "grant the user View Setup and Configuration")
		}
		return err
	}
	var limits map[string]limit
	var line bytes.Buffer
	if err := json.Unmarshal(raw, &limits); err != nil || json.Compact(&line, raw) != nil {
		w.failed.WithLabelValues().Inc()
		return &feed.OddAnswer{Text: "ask for the limits: the answer is none"}
	}
	w.mu.Lock()
	w.limits = limits
	w.mu.Unlock()
	line.WriteByte('\n')
	if _, err := w.app.Stdout.Write(line.Bytes()); err != nil {
		return sysexits.Wrap(sysexits.IOErr, fmt.Errorf("write the limits: %w", err))
	}
	return nil
}
