package replay

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strconv"
	"syscall"

	"golang.org/x/time/rate"

	"sf2loki/pkg/record"
	"sf2loki/pkg/spool"
	"sf2loki/pkg/sysexits"
)

// How much is claimed, and entered as pending, at a time.
const (
	chunkRecords = 256
	chunkBytes   = 1 << 20
)

// send writes the items to the command, and closes its input. It stops early
// when asked to, and when the command does not read on.
func (r *run) send(ctx context.Context, c *child) (err error) {
	out := bufio.NewWriterSize(c.stdin, 64<<10)
	status := 0
	defer func() {
		if err != nil {
			status = int(sysexits.Of(err))
		}
		_, werr := out.Write(r.runLine(&status))
		if werr == nil {
			werr = out.Flush()
		}
		c.stdin.Close()
		if errors.Is(werr, syscall.EPIPE) {
			werr = nil // the command's own end says why
		}
		if werr != nil {
			werr = sysexits.Wrap(sysexits.IOErr, fmt.Errorf("write to the command: %w", werr))
		}
		err = errors.Join(err, werr)
	}()
	if _, err := out.Write(r.runLine(nil)); err != nil {
		return nil
	}
	limiter := rate.NewLimiter(rate.Inf, 1)
	if r.Rate > 0 {
		limiter = rate.NewLimiter(rate.Limit(r.Rate), max(1, int(r.Rate/20)))
	}
	for from := 0; from < len(r.items) && ctx.Err() == nil; {
		to, err := r.claimChunk(from)
		if err != nil {
			return err
		}
		for ; from < to; from++ {
			if r.Rate > 0 {
				if limiter.Tokens() < 1 {
					if err := out.Flush(); err != nil {
						return nil
					}
				}
				if limiter.Wait(ctx) != nil {
					return nil // asked to stop
				}
			}
			line, err := r.line(from)
			if err != nil {
				return err
			}
			if _, err := out.Write(line); err != nil {
				return nil // whoever reads has gone; its end says why
			}
		}
		if err := out.Flush(); err != nil {
			return nil
		}
	}
	return nil
}

// claimChunk enters the next few items as pending.
func (r *run) claimChunk(from int) (to int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	bytes := int64(0)
	of := map[*group][]spool.Item{}
	for to = from; to < len(r.items) && to < from+chunkRecords && bytes < chunkBytes; to++ {
		it := &r.items[to]
		bytes += it.Size()
		it.state = sent
		it.group.sent = append(it.group.sent, to)
		it.group.total++
		of[it.group] = append(of[it.group], it.Item)
	}
	for g, items := range of {
		if err := g.claim.MarkPending(items); err != nil {
			return 0, err
		}
	}
	return to, nil
}

// line is an item as it is sent.
func (r *run) line(i int) ([]byte, error) {
	var l spool.Letter
	if err := r.items[i].Letter(&l); err != nil {
		return nil, err
	}
	return l.AppendForReplay(nil, r.items[i].group.key, strconv.Itoa(i+1), r.StreamLabels), nil
}

func (r *run) runLine(status *int) []byte {
	return record.AppendRun(nil, record.Run{Program: r.Program, RunID: r.RunID, At: r.Now().UTC(), Status: status})
}
