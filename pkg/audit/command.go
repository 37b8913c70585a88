package audit

import (
	"strings"
	"time"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/record"
	"sf2loki/pkg/spool"
)

// Commands are what the commands of findings are made of.
type Commands struct {
	// Pull is what pulls a window anew, and is given --event-type, --interval,
	// --since and --until. Empty: a pipeline of the three programs.
	Pull string
	// Replay is what replays letters, and is given a selection. Empty: dl-replay
	// run, with loki-push behind it.
	Replay string

	Ledger string   // where the pipeline enters its accounts
	Spools []string // the first takes what the pipeline's loki-push refuses
}

// pull is the command that pulls the files of a window again, whatever was
// pulled of them before: it begins without a position.
func (c *Commands) pull(org, eventType, interval string, since, until time.Time) string {
	args := " --event-type " + quote(eventType)
	if interval != "" {
		args += " --interval " + quote(interval)
	}
	return c.pipeline("sf-pull elf", args+c.org(org), since, until)
}

func (c *Commands) pipeline(source, args string, since, until time.Time) string {
	if !until.IsZero() {
		args = " --until " + stamp(until) + args
	}
	if !since.IsZero() {
		args = " --since " + stamp(since) + args
	}
	if c.Pull != "" {
		return c.Pull + args
	}
	push := "loki-push"
	if len(c.Spools) > 0 {
		push += " --spool " + quote(c.Spools[0])
	}
	return source + args + " | " + push + " | ckpt commit " + quote(c.Ledger+".fill.json") + " --ledger " + quote(c.Ledger)
}

// pullOther is the same for any source; a topic has no window.
func (c *Commands) pullOther(p *pass, since, until time.Time) string {
	switch p.source {
	case elfSource:
		if strings.ContainsRune(p.Origin, '/') || strings.HasSuffix(p.Origin, ".csv") {
			return "" // a file on disk
		}
		f := file{Interval: p.Interval}
		if name := checkpoint.ParseKey(p.key).Object; f.Interval == "" && name != checkpoint.EventType(name) {
			f.Interval = "Daily"
		}
		if at, err := time.Parse(time.RFC3339, p.LogDate); err == nil {
			since, until = at, at.Add(f.span())
		}
		return c.pull(p.org(), p.EventType, f.Interval, since, until)
	case checkpoint.SourceObjects:
		return c.pipeline("sf-pull objects", " --object "+quote(p.EventType)+c.org(p.org()), since, until)
	case checkpoint.SourceApexLog:
		return c.pipeline("sf-pull apexlog", c.org(p.org()), since, until)
	}
	return ""
}

// org names whose rows are meant, where the command does not know already.
func (c *Commands) org(name string) string {
	if name == "" || c.Pull != "" {
		return ""
	}
	return " --org " + quote(name)
}

// replay is the command that replays some letters. Those that were refused for
// their time go with the present one: Loki would not take them otherwise.
func (c *Commands) replay(g group, s *span) string {
	const nano = "2006-01-02T15:04:05.999999999Z"
	args := g.selection()
	if s.first != 0 {
		args += " --event-since " + time.Unix(0, s.first).UTC().Format(nano) + " --event-until " + time.Unix(0, s.last+1).UTC().Format(nano)
	}
	if g.status != spool.New {
		args += " --status " + string(g.status)
	}
	switch g.reason {
	case record.TooOld, record.TooNew, record.TooFarBehind:
		args += " --ts now"
	}
	if c.Replay != "" {
		return c.Replay + args
	}
	return "dl-replay run" + c.spools() + args + " -- loki-push"
}

func (g *group) selection() string {
	args := " --reason " + quote(string(g.reason))
	if g.source != "" {
		args += " --source " + quote(g.source)
	}
	if g.eventType != "" {
		args += " --event-type " + quote(g.eventType)
	}
	return args
}

// show is the command that shows letters that none can replay as they are.
func (c *Commands) show(g group) string { return "dl-replay show" + c.spools() + g.selection() }

func (c *Commands) spools() string {
	text := ""
	for _, dir := range c.Spools {
		text += " --spool " + quote(dir)
	}
	return text
}

// quote makes text one word of a shell, whatever a server has put into it.
func quote(text string) string {
	plain := text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._/:=@%+,-", r))
	})
	if plain {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
