package cli

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/term"

	"sf2loki/pkg/secret"
)

// newLogger makes the logger that the flags ask for.
func (app *App) newLogger() *slog.Logger {
	var lvl slog.Level
	if err := lvl.UnmarshalText([]byte(app.common.logLevel)); err != nil {
		lvl = slog.LevelInfo // before flags are parsed
	}
	opts := &slog.HandlerOptions{Level: lvl}
	var h slog.Handler = slog.NewTextHandler(app.term, opts)
	if app.common.logFormat == "json" {
		h = slog.NewJSONHandler(app.term, opts)
	}
	return slog.New(&runHandler{h, app}).With("program", app.Name)
}

// strayLog takes what libraries print through package log, as net/http does
// about servers that misbehave: it is no message of the program.
type strayLog struct{ app *App }

func (l strayLog) Write(p []byte) (int, error) {
	l.app.Log.Debug("a library says", "text", oneLine(string(p)))
	return len(p), nil
}

// runHandler adds the run's id, which loki-push learns from its input.
type runHandler struct {
	slog.Handler
	app *App
}

func (h *runHandler) Handle(ctx context.Context, r slog.Record) error {
	r.AddAttrs(slog.String("run_id", h.app.RunID()))
	return h.Handler.Handle(ctx, r)
}

func (h *runHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &runHandler{h.Handler.WithAttrs(attrs), h.app}
}

func (h *runHandler) WithGroup(name string) slog.Handler {
	return &runHandler{h.Handler.WithGroup(name), h.app}
}

// newRunID returns a UUID of version 7: its first digits are the time, so that
// ids sort by it.
func newRunID(now time.Time) string {
	var b [16]byte
	rand.Read(b[:]) // never fails: it ends the program instead
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(now.UnixMilli()))
	copy(b[:6], ms[2:])
	b[6] = b[6]&0x0f | 0x70
	b[8] = b[8]&0x3f | 0x80
	s := hex.EncodeToString(b[:])
	return s[:8] + "-" + s[8:12] + "-" + s[12:16] + "-" + s[16:20] + "-" + s[20:]
}

// terminal is stderr, shared by messages and one progress line.
type terminal struct {
	secrets *secret.Set // that are not shown there

	mu   sync.Mutex
	w    io.Writer
	line bool // a progress line stands there
}

const clearLine = "\r\x1b[K"

func (t *terminal) Write(p []byte) (int, error) {
	text := t.secrets.HideLong(string(p))
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.line {
		t.line = false
		io.WriteString(t.w, clearLine)
	}
	if _, err := io.WriteString(t.w, text); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (t *terminal) progress(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.line = text != ""
	io.WriteString(t.w, clearLine+t.secrets.HideLong(text))
}

// Progress shows text on a line that it overwrites each time, only when stderr
// is a terminal and messages are text. An empty text removes the line.
func (app *App) Progress(text string) {
	if app.HasProgress() {
		width, _, err := term.GetSize(int(app.Stderr.Fd()))
		if err != nil {
			width = 0
		}
		app.term.progress(fit(oneLine(text), width))
	}
}

// fit cuts text so that a terminal that is so wide, as far as it says, shows it
// in one line: of two only the second could be overwritten.
func fit(text string, width int) string {
	if runes := []rune(text); width > 0 && len(runes) >= width {
		return string(runes[:width-1])
	}
	return text
}

// HasProgress tells whether Progress shows anything. A dumb terminal has no way
// to take a line back.
func (app *App) HasProgress() bool {
	if kind, _ := app.LookupEnv("TERM"); kind == "dumb" {
		return false
	}
	return app.common.logFormat == "text" && isTerminal(app.Stderr)
}

// KeepProgress shows twice a second how far the run is, as Progress does, until
// stop is called.
func (app *App) KeepProgress(text func() string) (stop func()) {
	if !app.HasProgress() {
		return func() {}
	}
	turn := app.turn()
	end := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		shown := false
		for {
			select {
			case <-end:
				app.Progress("")
				return
			case now := <-tick.C:
				if !shown || turn(now) {
					app.Progress(text())
					shown = true
				}
			}
		}
	})
	return func() { close(end); done.Wait() }
}

// turnSpan is how long the line of one program of a pipeline stays.
const turnSpan = 2

// turn tells when this program shows its line: the programs of a pipeline have
// one terminal, so the head and those behind it take turns, by the clock.
func (app *App) turn() func(time.Time) bool {
	half := int64(-1)
	switch {
	case isPipe(app.Stdin):
		half = 1
	case isPipe(app.Stdout):
		half = 0
	}
	return func(now time.Time) bool { return half < 0 || now.Unix()/turnSpan%2 == half }
}

func isPipe(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeNamedPipe != 0
}

// StdoutIsTerminal reports whether what is written there is looked at.
func (app *App) StdoutIsTerminal() bool { return isTerminal(app.Stdout) }

// StdinIsTerminal reports whether a person would have to type the input.
func (app *App) StdinIsTerminal() bool { return isTerminal(app.Stdin) }

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
