package sftest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sf2loki/pkg/sftest/soql"
)

// locator is a query whose further pages can be asked for.
type locator struct {
	records []json.RawMessage
	page    int
	tooling bool
	object  string
	made    time.Time
	total   int // as it is told
}

// locatorLife is how long the rest of a result is kept.
const locatorLife = 48 * time.Hour

// maxLocators is how many a user can have open: one more ends the oldest.
const maxLocators = 10

func (o *Org) query(w *writer, r *http.Request, version string, tooling bool) {
	var body []byte
	text, err := queryText(r.URL.RawQuery)
	if err == nil {
		o.locked(func() { body, err = o.firstPage(text, o.pageSize(r), w.short(), version, tooling) })
	}
	var refused *soql.Error
	switch {
	case errors.As(err, &refused):
		o.fail(w, http.StatusBadRequest, refused.Code, refused.Message)
	case err != nil:
		o.fail(w, http.StatusBadRequest, "MALFORMED_QUERY", err.Error())
	default:
		o.raw(w, body)
	}
}

// firstPage runs a statement. The caller holds mu.
func (o *Org) firstPage(text string, size, short int, version string, tooling bool) ([]byte, error) {
	res, t, err := o.run(text, tooling)
	if err != nil {
		return nil, err
	}
	if res.CountOnly {
		return fmt.Appendf(nil, `{"totalSize":%d,"done":true,"records":[]}`, res.Count), nil
	}
	loc := &locator{page: size, tooling: tooling, object: t.Name, made: o.now()}
	for _, row := range res.Rows {
		loc.records = append(loc.records, encodeRecord(t, res, row, version, tooling))
	}
	if res.Aggregate && len(loc.records) > loc.page {
		return nil, &soql.Error{Code: "EXCEEDED_ID_LIMIT", Message: "Aggregate query does not support queryMore(), use LIMIT to restrict the results to a single batch"}
	}
	loc.total = len(loc.records) + max(-short, 0)
	loc.records = loc.records[:min(max(len(loc.records)-short, 0), len(loc.records))]
	id := o.newID("01g")
	if len(loc.records) > loc.page {
		o.hold(id, loc)
	}
	return loc.render(version, id, 0), nil
}

// hold keeps a locator, in the place of the oldest when a user has all that an
// org allows. The caller holds mu.
func (o *Org) hold(id string, loc *locator) {
	if len(o.locators) >= maxLocators {
		delete(o.locators, slices.Min(slices.Collect(maps.Keys(o.locators)))) // ids rise
	}
	o.locators[id] = loc
}

func queryText(raw string) (string, error) {
	for _, part := range strings.Split(raw, "&") {
		if value, ok := strings.CutPrefix(part, "q="); ok {
			return url.QueryUnescape(value)
		}
	}
	return "", &soql.Error{Code: "MALFORMED_QUERY", Message: "A query string has to be specified"}
}

var batchSize = regexp.MustCompile(`batchSize=([0-9]+)`)

func (o *Org) pageSize(r *http.Request) int {
	n := o.cfg.PageSize
	if m := batchSize.FindStringSubmatch(r.Header.Get("Sforce-Query-Options")); m != nil {
		asked, _ := strconv.Atoi(m[1])
		n = min(n, min(max(asked, 200), 2000))
	}
	return n
}

// run evaluates a statement. The caller holds mu.
func (o *Org) run(text string, tooling bool) (*soql.Result, *Table, error) {
	q, err := soql.Parse(text, soql.Options{LenientDates: o.cfg.LenientDates})
	if err != nil {
		return nil, nil, err
	}
	t := o.tables[strings.ToLower(q.From)]
	if t == nil || t.Hidden || t.Tooling && !tooling {
		return nil, nil, &soql.Error{Code: "INVALID_TYPE", Message: fmt.Sprintf("\nERROR at Row:1:Column:1\nsObject type '%s' is not supported. If you are attempting to use a custom object, be sure to append the '__c' after the entity name. Please reference your WSDL or the describe call for the appropriate names.", q.From)}
	}
	if t.BigObject {
		if err := bigObjectRules(q); err != nil {
			return nil, nil, err
		}
	}
	rows := t.visible(o.now())
	if t.Name == "EventLogFile" && !o.cfg.NoHourly && !soql.Mentions(q.Where, "Interval", "Sequence", "Id") {
		// Without a word on the interval an org shows daily files only.
		rows = keep(rows, func(r soql.Row) bool { return r["Interval"] == "Daily" })
	}
	res, err := q.Run(&t.Object, rows, o.now())
	return res, t, err
}

func keep(rows []soql.Row, ok func(soql.Row) bool) []soql.Row {
	out := rows[:0]
	for _, r := range rows {
		if ok(r) {
			out = append(out, r)
		}
	}
	return out
}

// bigObjectRules are what the store of events refuses.
func bigObjectRules(q *soql.Query) error {
	for _, c := range q.Select {
		if c.Func != "" && c.Func != "FIELDS" {
			return &soql.Error{Code: "BIG_OBJECT_UNSUPPORTED_OPERATION", Message: "Aggregate functions not supported"}
		}
	}
	if len(q.GroupBy) > 0 {
		return &soql.Error{Code: "BIG_OBJECT_UNSUPPORTED_OPERATION", Message: "Aggregate functions not supported"}
	}
	for _, or := range q.OrderBy {
		if !or.Desc {
			return &soql.Error{Code: "BIG_OBJECT_UNSUPPORTED_OPERATION", Message: "Unsupported order direction on filter column: " + strings.ToUpper(or.Field) + " : ASCENDING"}
		}
	}
	for _, c := range soql.Conditions(q.Where) {
		switch c.Op {
		case "!=", "LIKE", "NOT IN":
			return &soql.Error{Code: "INVALID_QUERY_FILTER_OPERATOR", Message: "invalid operator"}
		}
		if !strings.EqualFold(c.Field, "EventDate") && !strings.EqualFold(c.Field, "EventIdentifier") {
			return &soql.Error{Code: "INVALID_FIELD", Message: fmt.Sprintf("field '%s' can not be filtered in a query call", c.Field)}
		}
	}
	return nil
}

func (o *Org) more(w *writer, version, ref string) {
	id, offset, _ := strings.Cut(ref, "-")
	from, err := strconv.Atoi(offset)
	o.mu.Lock()
	loc := o.locators[id]
	old := loc != nil && o.now().Sub(loc.made) > locatorLife
	o.mu.Unlock()
	if err != nil || loc == nil || old || from < 0 || from > len(loc.records) {
		o.fixture(w, "err_400_locator.json")
		return
	}
	o.raw(w, loc.render(version, id, from))
}

func (loc *locator) render(version, id string, from int) []byte {
	to := min(from+loc.page, len(loc.records))
	head, base := "", "/services/data/"+version
	if loc.tooling {
		head, base = fmt.Sprintf(`"size":%d,"queryLocator":null,"entityTypeName":%q,`, to-from, loc.object), base+"/tooling"
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, `{%s"totalSize":%d,"done":%t`, head, loc.total, to == len(loc.records))
	if to < len(loc.records) {
		fmt.Fprintf(&b, `,"nextRecordsUrl":"%s/query/%s-%d"`, base, id, to)
	}
	b.WriteString(`,"records":[`)
	for i, rec := range loc.records[from:to] {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(rec)
	}
	b.WriteString(`]}`)
	return b.Bytes()
}

// encodeRecord writes a record as REST does: fields in the order of SELECT.
func encodeRecord(t *Table, res *soql.Result, row soql.Row, version string, tooling bool) json.RawMessage {
	var b bytes.Buffer
	if res.Aggregate {
		b.WriteString(`{"attributes":{"type":"AggregateResult"}`)
	} else {
		fmt.Fprintf(&b, `{"attributes":{"type":%q,"url":%q}`, t.Name, recordPath(t, row, version, tooling))
	}
	for _, name := range res.Columns {
		fmt.Fprintf(&b, ",%q:", name)
		b.Write(encodeValue(t, row, name, version, tooling))
	}
	b.WriteByte('}')
	return b.Bytes()
}

func recordPath(t *Table, row soql.Row, version string, tooling bool) string {
	base := "/services/data/" + version
	if tooling {
		base += "/tooling"
	}
	return fmt.Sprintf("%s/sobjects/%s/%v", base, t.Name, row["Id"])
}

func encodeValue(t *Table, row soql.Row, name, version string, tooling bool) []byte {
	switch v := row[name].(type) {
	case time.Time:
		return []byte(`"` + v.UTC().Format("2006-01-02T15:04:05.000") + `+0000"`)
	case float64:
		return []byte(double(v))
	case Blob:
		return []byte(strconv.Quote(recordPath(t, row, version, tooling) + "/" + name))
	default:
		data, err := json.Marshal(v)
		if err != nil {
			panic(fmt.Sprintf("sftest: field %s: %v", name, err))
		}
		return data
	}
}

// double writes a double as REST does, 2692.0.
func double(v float64) string {
	s := strconv.FormatFloat(v, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

func (o *Org) record(w *writer, version, object, id string) {
	var body []byte
	o.locked(func() {
		row := o.find(object, id)
		if row == nil {
			return
		}
		t := o.tables[strings.ToLower(object)]
		res := &soql.Result{}
		for _, f := range t.Fields {
			res.Columns = append(res.Columns, f.Name)
		}
		body = encodeRecord(t, res, row, version, false)
	})
	if body == nil {
		o.fixture(w, "err_404_not_found.json")
		return
	}
	o.raw(w, body)
}

// blob sends the content of a base64 field, in chunks and without a length.
func (o *Org) blob(w *writer, r *http.Request, object, id, field string) {
	o.mu.Lock()
	row := o.find(object, id)
	b, ok := row[field].(Blob)
	o.mu.Unlock()
	if !ok || b.Gone {
		o.fixture(w, "err_404_not_found.json")
		return
	}
	w.Header().Set("Content-Type", "application/octetstream")
	if object == "ApexLog" {
		w.Header().Set("Content-Type", "text/plain;charset=UTF-8")
	}
	body, done := o.body(w, r)
	defer done()
	w.Flush()
	chunks := &chunker{w: body, size: o.cfg.ChunkSize}
	if b.Write != nil {
		if err := b.Write(chunks); err != nil {
			panic(http.ErrAbortHandler)
		}
		return
	}
	chunks.Write(b.Bytes)
}

// chunker splits what is written.
type chunker struct {
	w    io.Writer
	size int
}

func (c *chunker) Write(p []byte) (int, error) {
	total := len(p)
	for len(p) > 0 {
		n, err := c.w.Write(p[:min(len(p), c.size)])
		if err != nil {
			return total - len(p) + n, err
		}
		p = p[n:]
	}
	return total, nil
}

func (o *Org) limits(w *writer) {
	var all map[string]map[string]any
	if err := json.Unmarshal(fixtureBody("limits.json"), &all); err != nil {
		panic(fmt.Sprintf("sftest: %v", err))
	}
	o.locked(func() {
		all["DailyApiRequests"]["Max"] = o.cfg.DailyCalls
		all["DailyApiRequests"]["Remaining"] = o.cfg.DailyCalls - o.used
	})
	o.json(w, all)
}

func (o *Org) describeGlobal(w *writer) {
	var all map[string]any
	if err := json.Unmarshal(fixtureBody("sobjects_global.json"), &all); err != nil {
		panic(fmt.Sprintf("sftest: %v", err))
	}
	list, _ := all["sobjects"].([]any)
	known := map[string]bool{}
	for _, s := range list {
		name, _ := s.(map[string]any)["name"].(string)
		known[name] = true
	}
	o.locked(func() {
		for _, name := range o.announced {
			if !known[name] {
				known[name] = true
				list = append(list, map[string]any{"name": name, "label": name, "queryable": false, "custom": strings.HasSuffix(name, "__e")})
			}
		}
		for _, t := range o.tables {
			if !known[t.Name] && !t.Hidden && !t.Tooling {
				list = append(list, map[string]any{"name": t.Name, "label": t.Name, "queryable": true, "custom": strings.HasSuffix(t.Name, "__c"), "keyPrefix": t.KeyPrefix})
			}
		}
	})
	all["sobjects"] = list
	o.json(w, all)
}

var typeNames = map[soql.Type]string{soql.Text: "string", soql.ID: "id", soql.Num: "double", soql.Bool: "boolean", soql.Time: "datetime", soql.Base64: "base64"}

func (o *Org) describe(w *writer, object string) {
	var out map[string]any
	o.locked(func() {
		t := o.tables[strings.ToLower(object)]
		if t == nil || t.Hidden {
			return
		}
		var fields []map[string]any
		for _, f := range t.Fields {
			field := map[string]any{"name": f.Name, "label": f.Name, "type": typeNames[f.Type], "filterable": f.Type != soql.Base64, "sortable": f.Type != soql.Base64}
			if t.Name == "EventLogFile" && f.Name == "EventType" {
				field["type"], field["picklistValues"] = "picklist", o.eventTypes()
			}
			fields = append(fields, field)
		}
		out = map[string]any{"name": t.Name, "label": t.Name, "queryable": true, "keyPrefix": t.KeyPrefix, "fields": fields}
	})
	if out == nil {
		o.fixture(w, "err_404_not_found.json")
		return
	}
	o.json(w, out)
}
