package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"time"

	"sf2loki/pkg/cli"
	"sf2loki/pkg/feed"
	"sf2loki/pkg/record"
	"sf2loki/pkg/salesforce"
	"sf2loki/pkg/shape"
	"sf2loki/pkg/sysexits"
)

// feedFlags are the flags that objects and apexlog share.
type feedFlags struct {
	orgFlags
	shapeFlags
	resume       string
	follow       bool
	poll         time.Duration
	settle       time.Duration
	overlap      time.Duration
	lookback     time.Duration
	since, until time.Time
	letterFD     int
	plan         planFlag
	maxAge       time.Duration
}

// margins are the defaults that differ from source to source.
type margins struct{ poll, settle, overlap time.Duration }

func (f *feedFlags) register(app *cli.App, fs *flag.FlagSet, m margins) {
	f.orgFlags.register(app, fs)
	fs.StringVar(&f.lane, "lane", "", "`NAME` of an independent consumer of the same rows")
	fs.StringVar(&f.resume, "resume", "", "begin at the positions of the checkpoint document `FILE`, - for standard input")
	fs.BoolVar(&f.follow, "follow", false, "go on until stopped, with a pass every --poll")
	cli.DurationVar(fs, &f.poll, "poll", m.poll, "`TIME` between two passes")
	cli.DurationVar(fs, &f.settle, "settle", m.settle, "leave what is younger than `TIME` for the next pass")
	cli.DurationVar(fs, &f.overlap, "overlap", m.overlap, "read `TIME` before the position again, for what became visible late")
	cli.DurationVar(fs, &f.lookback, "lookback", 24*time.Hour, "begin `TIME` ago where there is no position")
	cli.TimeVar(fs, &f.since, "since", "begin at `TIME` where there is no position")
	cli.TimeVar(fs, &f.until, "until", "end before `TIME`: a window with positions of its own")
	f.shapeFlags.register(app, fs)
	fs.IntVar(&f.letterFD, "dead-letter-fd", defaultLetterFD, "write dead letters to descriptor `N`; -1: among the records")
	fs.Var(&f.plan, "plan", "print what would be pulled and pull nothing; =static: what the flags alone tell")
	cli.DurationVar(fs, &f.maxAge, "max-age", 7*24*time.Hour, "--plan counts rows older than `TIME` apart")
}

func (f *feedFlags) check(args []string) error {
	if err := cli.NoOperands(args); err != nil {
		return err
	}
	if err := f.orgFlags.check(); err != nil {
		return err
	}
	switch {
	case f.letterFD < -1 || f.letterFD == 1 || f.letterFD == 2 || f.letterFD == 0:
		return cli.Usagef("--dead-letter-fd %d: it may be 3 or more, or -1", f.letterFD)
	case f.poll <= 0:
		return cli.Usagef("--poll: it must be more than 0")
	case f.follow && !f.until.IsZero():
		return cli.Usagef("--follow does not go with --until: a window has an end")
	case !f.since.IsZero() && !f.until.IsZero() && !f.since.Before(f.until):
		return cli.Usagef("--since must be before --until")
	}
	return nil
}

func (f *feedFlags) window() feed.Window { return feed.Window{Since: f.since, Until: f.until} }

// ready is what a pull from an org has when it can begin.
type ready struct {
	client *salesforce.Client
	orgID  string
	resume func(key string) (string, bool)
	shape  *shape.Shape
	output feed.Output
}

// prepare reads the positions, opens the destination of dead letters and logs in.
func (f *feedFlags) prepare(ctx context.Context, app *cli.App, out *output, source string, rules shape.Config, given map[string]bool) (*ready, error) {
	doc, err := readResume(app, f.resume)
	if err != nil {
		return nil, err
	}
	r := &ready{resume: doc.Get}
	var letter func([]byte) error
	if f.plan == "" {
		if letter, err = out.letters(f.letterFD, given["dead-letter-fd"]); err != nil {
			return nil, err
		}
	}
	org := newOrgMetrics(app)
	app.OnReady(func() error {
		if !org.loggedIn.Load() {
			return errors.New("not logged in to Salesforce yet")
		}
		return nil
	})
	if r.client, r.orgID, err = f.connect(ctx, app, org.hooks); err != nil {
		return nil, err
	}
	r.output = feed.Output{
		Records: out.records, Letter: letter, RunID: app.RunID(), Instance: app.Instance, Org: f.org, Now: time.Now,
	}
	r.shape, err = f.build(app, rules, source, f.identity(r.orgID))
	return r, err
}

// stopped makes a run that was asked to stop one that went well.
func stopped(app *cli.App, err error) error {
	var stop *cli.Stopped
	if errors.As(err, &stop) {
		app.Log.Info("stopped", "cause", stop)
		return nil
	}
	return err
}

// printJSON prints one object on standard output.
func printJSON(app *cli.App, v any) error {
	enc := json.NewEncoder(app.Stdout)
	enc.SetEscapeHTML(false)
	return sysexits.Wrap(sysexits.IOErr, enc.Encode(v))
}

// observeFeed has the counters of a source in the metrics, the status snapshot
// and the account.
func observeFeed(app *cli.App, source string, stats *feed.Stats) {
	app.Metrics.Collect(func(s *cli.Samples) { collectFeed(s, source, stats.Totals()) })
	app.OnUSR1(func() any { return stats.Totals() })
	app.Report(func() []cli.ReportRow { return reportFeed(source, stats) })
}

func collectFeed(s *cli.Samples, source string, t feed.Totals) {
	fallbacks := int64(0)
	for _, c := range t.Types {
		byType := []string{"source", source, "event_type", c.EventType}
		byObject := []string{"source", source, "object", c.EventType}
		s.Counter("events_ingested_total", "Rows that became records.", float64(c.Written), byType...)
		s.Counter("entries_sampled_out_total", "Rows left out by sampling.", float64(c.SampledOut), byType...)
		s.Gauge("watermark_timestamp_seconds", "Time of the row that the position has reached; 0: none yet.", float64(c.Position)/1e9, byObject...)
		s.Counter("soql_poll_errors_total", "Queries that failed.", float64(t.PollErrors[c.EventType]), byObject...)
		s.Counter("watermark_stalls_total", "Passes that could not get past a time.", float64(t.Stalls[c.EventType]), byObject...)
		fallbacks += c.Fallbacks
	}
	s.Counter("timestamp_fallbacks_total", "Rows without a time of their own.", float64(fallbacks), "source", source)
	s.Counter("checkpoint_load_errors_total", "Stored positions that could not be used.", float64(t.LoadErrors), "source", source)
	bytes := int64(0)
	for _, reason := range []record.Reason{record.DecodeError, record.SourceGap} {
		l := t.Letters[string(reason)]
		bytes += l.Bytes
		s.Counter("deadletter_entries_written_total", "Dead letters written.", float64(l.Entries), "reason", string(reason))
	}
	s.Counter("deadletter_bytes_written_total", "Bytes of dead letters written.", float64(bytes))
	s.Counter("deadletter_write_errors_total", "Dead letters that could not be written.", float64(t.LetterErrors))
}

// reportFeed is the account of the run.
func reportFeed(source string, stats *feed.Stats) []cli.ReportRow {
	rows := []cli.ReportRow{}
	for _, c := range stats.Totals().Types {
		rows = append(rows, cli.ReportRow{
			Source: source, EventType: c.EventType,
			In: cli.Count{Name: "read", N: c.Read},
			Out: []cli.Count{
				{Name: "written", N: c.Written}, {Name: "filtered", N: c.Filtered}, {Name: "sampled_out", N: c.SampledOut},
				{Name: "skipped_duplicate", N: c.SkippedDuplicate}, {Name: "dead_lettered", N: c.DeadLettered},
			},
			Info: []cli.Count{
				{Name: "queries", N: c.Queries}, {Name: "bytes", N: c.Bytes}, {Name: "timestamp_fallbacks", N: c.Fallbacks},
				{Name: "source_gaps", N: c.Gaps, Loss: true},
			},
		})
	}
	return rows
}
