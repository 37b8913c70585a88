package pubsub

import (
	"context"
	"crypto/md5"
	"encoding/base64"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/avro"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"sf2loki/pkg/pubsub/avrojson"
	"sf2loki/pkg/pubsub/eventbus"
)

// schemas fetches each schema once, whoever needs it, and keeps it: the schema
// of an id never changes.
type schemas struct {
	s *Source

	mu   sync.Mutex
	byID map[string]*schemaEntry
	size int // of the outcomes that are kept
}

// maxSchemas bounds the memory that schemas take together: ten times what an org
// of many objects needs. When it is used up they are all fetched anew.
const maxSchemas = 32 << 20

type schemaEntry struct {
	ready  chan struct{} // closed when the outcome is there
	schema *avrojson.Schema
	err    error
	until  time.Time // a refusal is believed so long; zero: for ever
}

// errUnusable is a schema that there is no use in asking for again: events
// that need it are dead letters.
type errUnusable struct {
	id  string
	err error
}

func (e *errUnusable) Error() string { return fmt.Sprintf("schema %q: %v", e.id, e.err) }
func (e *errUnusable) Unwrap() error { return e.err }

// believe is how long a schema counts as unusable after it was refused.
const believe = 5 * time.Minute

func newSchemas(s *Source) *schemas { return &schemas{s: s, byID: map[string]*schemaEntry{}} }

// get gives a schema. It waits as long as the schema may be had: what it
// belongs to is neither lost nor passed over meanwhile.
func (c *schemas) get(ctx context.Context, id string) (*avrojson.Schema, error) {
	for {
		c.mu.Lock()
		e := c.byID[id]
		if e != nil && !e.until.IsZero() && c.s.cfg.Now().After(e.until) {
			e = nil
		}
		if e == nil {
			e = &schemaEntry{ready: make(chan struct{})}
			c.byID[id] = e
			c.mu.Unlock()
			c.fetch(ctx, id, e)
			return e.schema, e.err
		}
		c.mu.Unlock()
		select {
		case <-e.ready:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if !errors.Is(e.err, errGone) {
			return e.schema, e.err
		}
	}
}

// errGone is the outcome of a fetch whose caller has left: the next tries anew.
var errGone = errors.New("not fetched")

// fetch fills in e.
func (c *schemas) fetch(ctx context.Context, id string, e *schemaEntry) {
	e.schema, e.err = c.load(ctx, id)
	var unusable *errUnusable
	c.mu.Lock()
	switch {
	case ctx.Err() != nil && e.schema == nil:
		e.err = fmt.Errorf("%w: %w", errGone, context.Cause(ctx))
		delete(c.byID, id)
	case errors.As(e.err, &unusable):
		e.until = c.s.cfg.Now().Add(believe)
	case e.err != nil:
		delete(c.byID, id)
	}
	if c.byID[id] == e {
		c.keep(id, e)
	}
	n := len(c.byID)
	c.mu.Unlock()
	c.s.stats.setSchemas(n)
	close(e.ready)
}

// keep counts what e takes, and makes room for it. The caller holds mu.
func (c *schemas) keep(id string, e *schemaEntry) {
	size := len(id) + 1<<10
	if e.schema != nil {
		size += e.schema.Size()
	}
	if c.size += size; c.size <= maxSchemas {
		return
	}
	for other, o := range c.byID {
		select {
		case <-o.ready:
			delete(c.byID, other)
		default: // it is being fetched
		}
	}
	c.size = size
}

func (c *schemas) load(ctx context.Context, id string) (*avrojson.Schema, error) {
	if id == "" {
		return nil, &errUnusable{id, errors.New("the event names none")}
	}
	var info *eventbus.SchemaInfo
	refused := 0
	f := c.s.patiently(ctx, 0, func() *failure {
		f := c.s.call(ctx, func(ctx context.Context, opts ...grpc.CallOption) (err error) {
			info, err = c.s.bus.GetSchema(ctx, &eventbus.SchemaRequest{SchemaId: id}, opts...)
			return err
		})
		if f != nil && f.refusesSchema() {
			// It may be too new to be everywhere yet.
			if refused++; refused < patience {
				f.do = again
			}
		}
		if f != nil {
			c.s.log.Warn("schema not to be had", "schema_id", id, "err", f.err)
		}
		return f
	})
	switch {
	case f == nil:
	case f.refusesSchema():
		return nil, &errUnusable{id, f.err}
	default:
		return nil, f
	}
	schema, err := avrojson.Parse([]byte(info.SchemaJson))
	if err != nil {
		return nil, &errUnusable{id, err}
	}
	if sum := schemaID(info.SchemaJson); sum != "" && sum != id {
		c.s.log.Warn("the id of a schema is not that of its text; events are decoded by it all the same", "schema_id", id, "schema", schema.Name(), "sum", sum)
	}
	return schema, nil
}

// schemaID is the id that Salesforce gives a schema: the MD5 of its canonical
// form; empty when that cannot be told.
func schemaID(text string) string {
	s, err := avro.Parse(text, avro.WithLaxNames(func(string) error { return nil }))
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(s.Fingerprint(md5.New()))
}

// Error makes a failure an error for those who cannot judge it themselves.
func (f *failure) Error() string { return f.err.Error() }

// refusesSchema tells whether the bus does not have the schema that was asked
// for.
func (f *failure) refusesSchema() bool {
	return f.code == "schema.validation.failed" || f.do != abort && (f.grpc == codes.NotFound || f.grpc == codes.InvalidArgument)
}
