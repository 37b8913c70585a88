package salesforce

import (
	"context"
	"io"
)

// smallBody is how much of a JSON answer is held without asking. Pages of wide
// rows are twice as long, so that eight queries of such at once share what one
// connection brings; where the network is the slow part, nothing is lost by it.
const smallBody = 2 << 20

// turn is the right to hold a large answer, from when it is read until its
// records are used up. A client has one, so that what several queries hold does
// not add up. Nothing that has it asks for another.
type turn struct {
	c    *Client
	held bool
}

func (t *turn) take(ctx context.Context) error {
	if t.held {
		return nil
	}
	select {
	case t.c.large <- struct{}{}:
		t.held = true
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pass gives the turn to the next, if it was had.
func (t *turn) pass() {
	if t.held {
		t.held = false
		<-t.c.large
	}
}

// readInTurn reads a whole body of at most max bytes; a large one takes a turn.
func (a *answer) readInTurn(max int64, t *turn) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(a, smallBody))
	if err != nil {
		return nil, err
	}
	if len(body) < smallBody {
		return body, nil
	}
	if err := t.take(a.ctx); err != nil {
		return nil, err
	}
	for int64(len(body)) <= max {
		if len(body) == cap(body) {
			body = append(body, 0)[:len(body)]
		}
		n, err := a.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch err {
		case nil:
		case io.EOF:
			return body, nil
		default:
			return nil, err
		}
	}
	return nil, a.tooLong(max)
}
