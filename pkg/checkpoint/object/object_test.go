package object

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/sysexits"
)

// bucket holds one object; its next calls hang.
type bucket struct {
	data string
	hung int // how many
}

func (b *bucket) hang(ctx context.Context) error {
	if b.hung == 0 {
		return nil
	}
	b.hung--
	<-ctx.Done()
	return sysexits.Wrap(sysexits.Unavailable, ctx.Err())
}

func (b *bucket) Get(ctx context.Context, _ string) ([]byte, checkpoint.Generation, error) {
	if err := b.hang(ctx); err != nil {
		return nil, "", err
	}
	return []byte(b.data), checkpoint.Generation("of " + b.data), nil
}

func (b *bucket) Put(ctx context.Context, _ string, data []byte, ifGen checkpoint.Generation) (checkpoint.Generation, error) {
	if err := b.hang(ctx); err != nil {
		return "", err
	}
	if ifGen != checkpoint.Generation("of "+b.data) {
		return "", checkpoint.ErrConflict
	}
	b.data = string(data)
	return checkpoint.Generation("of " + b.data), nil
}

func (b *bucket) Delete(ctx context.Context, _ string) error { return b.hang(ctx) }

func (b *bucket) Nobody() checkpoint.Generation { return "nobody" }

// A store that hangs is given up after its patience, and asked again: once is
// waited out, for ever ends the writer, within a minute.
func TestBucketHangs(t *testing.T) { // peers 77
	for hung, want := range map[int]sysexits.Code{1: sysexits.OK, 1 << 30: sysexits.Unavailable} {
		synctest.Test(t, func(t *testing.T) {
			b := &bucket{data: `{"k":"1"}`}
			c, err := checkpoint.NewCommitter(t.Context(), New("s3://b/k", b, "k"), 0, checkpoint.DefaultRetry)
			if err != nil {
				t.Fatal(err)
			}
			b.hung = hung
			start := time.Now()
			c.Stage(checkpoint.Position{Key: "k", Value: "2"})
			_, err = c.Write(t.Context(), func() error { return nil })
			if took := time.Since(start); sysexits.Of(err) != want || took < patience || took > time.Minute {
				t.Errorf("%d times: %v (%d) after %v", hung, err, sysexits.Of(err), took)
			}
			if err != nil && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the end is %v", err)
			}
		})
	}
}
