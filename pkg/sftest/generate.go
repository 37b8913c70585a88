package sftest

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Hour describes the rows of one event type in one span of time, usually an
// hour. The same Hour always has the same rows, and with the same Step the
// first rows of a larger one are those of a smaller one.
type Hour struct {
	Type  string
	Start time.Time
	Rows  int
	Seed  uint64
	Span  time.Duration // 0: an hour
	Step  time.Duration // between two rows; 0: they fill the span

	Awkward int      // every so many rows one with cells that are hard to read; 0: none
	Drop    []string // columns that are missing
	Add     []string // columns that nobody knows
	Dup     string   // a column that the header repeats
	CRLF    bool     // row ends
	Overlap int      // rows of the previous file of the hour that a late one repeats

	// Edit may change cells of row i, by column name, as they are made.
	Edit func(i int, cells map[string]string)
}

// Types gives the event types that can be generated, sorted.
func Types() []string { return slices.Sorted(maps.Keys(columns)) }

func (h Hour) span() time.Duration {
	if h.Span <= 0 {
		return time.Hour
	}
	return h.Span
}

// Header is the header row.
func (h Hour) Header() []string {
	cols, ok := columns[h.Type]
	if !ok {
		panic(fmt.Sprintf("sftest: no columns are known for event type %q", h.Type))
	}
	var out []string
	for _, c := range cols {
		if !slices.Contains(h.Drop, c) {
			out = append(out, c)
		}
	}
	out = append(out, h.Add...)
	if h.Dup != "" {
		out = append(out, h.Dup)
	}
	return out
}

// CSV is the whole file.
func (h Hour) CSV() []byte {
	var b bytes.Buffer
	h.Write(&b, 0, h.Rows)
	return b.Bytes()
}

// Write writes the header and the rows from the one index to before the other.
func (h Hour) Write(w io.Writer, from, to int) error {
	return h.write(w, from, to, true)
}

func (h Hour) write(w io.Writer, from, to int, header bool) error {
	out := bufio.NewWriterSize(w, 64<<10)
	cols := h.Header()
	line := make([]byte, 0, 4096)
	if header {
		line = h.appendRow(line, cols)
	}
	for i := from; i < to; i++ {
		line = h.appendRow(line, h.row(cols, i))
		if len(line) > 1<<15 {
			if _, err := out.Write(line); err != nil {
				return err
			}
			line = line[:0]
		}
	}
	if _, err := out.Write(line); err != nil {
		return err
	}
	return out.Flush()
}

func (h Hour) appendRow(dst []byte, cells []string) []byte {
	for i, c := range cells {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, '"')
		for {
			at := strings.IndexByte(c, '"')
			if at < 0 {
				break
			}
			dst = append(append(dst, c[:at]...), '"', '"')
			c = c[at+1:]
		}
		dst = append(append(dst, c...), '"')
	}
	if h.CRLF {
		dst = append(dst, '\r')
	}
	return append(dst, '\n')
}

func (h Hour) step() time.Duration {
	if h.Step > 0 {
		return h.Step
	}
	return max(h.span()/time.Duration(max(h.Rows, 1)), 1)
}

// When is the time of row i. Rows are not strictly in order, as in real files,
// and those beyond the end of the span begin at its start again: late ones may
// be of any minute.
func (h Hour) When(i int) time.Time {
	step := h.step()
	jitter := time.Duration(h.source(i).Int64N(int64(2*step) + 1))
	return h.Start.Add((time.Duration(i)*step + jitter) % h.span()).UTC().Truncate(time.Millisecond)
}

func (h Hour) source(i int) *rand.Rand {
	sum := fnv.New64a()
	fmt.Fprintf(sum, "%s %d %d", h.Type, h.Seed, h.Start.UnixNano())
	return rand.New(rand.NewPCG(sum.Sum64(), uint64(i)))
}

// row makes the cells of row i.
func (h Hour) row(cols []string, i int) []string {
	g := &gen{Rand: h.source(i), hour: &h, n: i, when: h.When(i)}
	g.user = g.IntN(len(names))
	g.entity = pick(g, entities)
	g.ok = g.Float64() > .1
	cells := make(map[string]string, len(cols))
	for _, c := range cols {
		if f := cellMakers[c]; f != nil {
			cells[c] = f(g)
		}
	}
	for _, c := range h.Add {
		cells[c] = fmt.Sprintf("unknown-%d", i)
	}
	if h.Awkward > 0 && i%h.Awkward == 0 {
		g.awkward(cells, i/h.Awkward)
	}
	if h.Edit != nil {
		h.Edit(i, cells)
	}
	out := make([]string, len(cols))
	for k, c := range cols {
		out[k] = cells[c]
	}
	return out
}

// gen is the state of one row.
type gen struct {
	*rand.Rand
	hour   *Hour
	n      int
	when   time.Time
	user   int
	entity string
	ok     bool
}

var (
	names    = []string{"ada.obi", "björn.ås", "chloé.dubois", "daisuke.山田", "eve.o'neil", "farid.khan", "grace.lee", "hana.novák"}
	entities = []string{"Account", "Contact", "Case", "Opportunity", "Invoice__c", "Lead"}
	agents   = []string{
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.4 Safari/605.1.15",
		"Go-http-client/1.1", "python-requests/2.31.0", "Salesforce DX CLI"}
	addresses = []string{"192.0.2.14", "198.51.100.77", "203.0.113.9", "2001:db8::42", "Salesforce.com IP", ""}
)

const orgID15 = "00Dxx0000001gPL"

func pick(g *gen, list []string) string { return list[g.IntN(len(list))] }

func (g *gen) between(a, b int) string { return strconv.Itoa(a + g.IntN(b-a+1)) }

func (g *gen) float(a, b float64, digits int) string {
	return strconv.FormatFloat(a+g.Float64()*(b-a), 'f', digits, 64)
}

const base62 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

// id is a record id of 15 characters.
func (g *gen) id(prefix string) string {
	b := []byte(prefix)
	for len(b) < 15 {
		b = append(b, base62[g.IntN(len(base62))])
	}
	return string(b)
}

func (g *gen) id18(prefix string) string { return ID18(g.id(prefix)) }

// key is an opaque key of n characters.
func (g *gen) key(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(g.IntN(256))
	}
	return base64.StdEncoding.EncodeToString(b)[:n]
}

func userID(n int) string { return fmt.Sprintf("005xx000001U%03d", n) }

func (g *gen) userName(n int) string { return names[n%len(names)] + "@example.com" }

func (g *gen) requestID() string {
	if g.IntN(2) == 0 {
		return "TID:" + strings.NewReplacer("+", "x", "/", "y").Replace(g.key(18))
	}
	return strings.NewReplacer("+", "-", "/", "_").Replace(g.key(22))
}

// awkward makes cells as real ones are at their worst.
func (g *gen) awkward(cells map[string]string, turn int) {
	set := func(value string, cols ...string) {
		for _, c := range cols {
			if _, ok := cells[c]; ok {
				cells[c] = value
			}
		}
	}
	switch turn % 6 {
	case 0:
		set("line one\nline two, with comma\n\tat \"quoted\" frame\n", "STACK_TRACE", "EXCEPTION_MESSAGE", "MESSAGE")
	case 1:
		set(g.longSOQL(), "QUERY")
		set("/apex/P?x="+strings.Repeat("A%20", 3000), "URI")
	case 2:
		set(`"example message"`, "REPORT_DESCRIPTION")
		set(`say ""hi"", then , stop`, "ACTION_MESSAGE")
	case 3:
		set("", "CLIENT_IP", "URI", "USER_ID", "USER_ID_DERIVED")
	case 4:
		set("Umsatz – Q3 ▲ «東京» 😀", "REPORT_DESCRIPTION")
		set("", "TIMESTAMP_DERIVED")
	case 5:
		set(strings.TrimSuffix(strings.TrimRight(cells["TIMESTAMP"], "0"), "."), "TIMESTAMP")
		set("tab\there; crlf\r\ninside", "EXCEPTION_MESSAGE")
	}
}

func (g *gen) longSOQL() string {
	ids := make([]string, 700)
	for i := range ids {
		ids[i] = "'" + g.id18("001xx") + "'"
	}
	return `SELECT Id, Name FROM Account WHERE Note__c = "quoted, with comma" AND Id IN (` + strings.Join(ids, ",") + `) ORDER BY Name`
}
