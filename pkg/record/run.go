package record

import (
	"encoding/json"
	"fmt"
	"strconv"
)

// AppendRun appends the record line that carries run.
func AppendRun(dst []byte, run Run) []byte {
	dst = AppendRunObject(append(dst, `{"checkpoint_only":true,"run":`...), run)
	return append(dst, '}', '\n')
}

// AppendRunObject appends run alone, as the JSON object that Record.Run and
// Ack.Run hold.
func AppendRunObject(dst []byte, run Run) []byte {
	dst = AppendString(append(dst, `{"program":`...), []byte(run.Program))
	dst = AppendString(append(dst, `,"run_id":`...), []byte(run.RunID))
	if !run.At.IsZero() {
		dst = append(AppendTime(append(dst, `,"at":"`...), run.At.UnixNano()), '"')
	}
	if run.Status != nil {
		dst = strconv.AppendInt(append(dst, `,"status":`...), int64(*run.Status), 10)
	}
	return append(dst, '}')
}

// ParseRun parses the object that Record.Run and Ack.Run hold.
func ParseRun(b []byte) (Run, error) {
	var run Run
	if err := json.Unmarshal(b, &run); err != nil {
		return Run{}, fmt.Errorf("parse run line: %.200q", err.Error()) // it quotes what stands there
	}
	return run, nil
}

// AppendAccount appends a as the JSON object that Record.Account holds.
func AppendAccount(dst []byte, a *Account) []byte {
	dst = AppendString(append(dst, `{"origin":`...), []byte(a.Origin))
	dst = AppendString(append(dst, `,"event_type":`...), []byte(a.EventType))
	if a.Interval != "" {
		dst = AppendString(append(dst, `,"interval":`...), []byte(a.Interval))
	}
	if a.LogDate != "" {
		dst = AppendString(append(dst, `,"log_date":`...), []byte(a.LogDate))
	}
	dst = strconv.AppendInt(append(dst, `,"bytes":`...), a.Bytes, 10)
	dst = strconv.AppendInt(append(dst, `,"rows":`...), a.Rows, 10)
	if a.ResumedAfter != 0 {
		dst = strconv.AppendInt(append(dst, `,"resumed_after":`...), a.ResumedAfter, 10)
	}
	dst = strconv.AppendInt(append(dst, `,"filtered":`...), a.Filtered, 10)
	dst = strconv.AppendInt(append(dst, `,"sampled_out":`...), a.SampledOut, 10)
	dst = strconv.AppendInt(append(dst, `,"skipped_duplicate":`...), a.SkippedDuplicate, 10)
	dst = strconv.AppendInt(append(dst, `,"dead_lettered":`...), a.DeadLettered, 10)
	if a.SourceGaps != 0 {
		dst = strconv.AppendInt(append(dst, `,"source_gaps":`...), a.SourceGaps, 10)
	}
	if a.Settled {
		dst = appendCounts(dst, a.Delivered, a.Rejected, a.Dropped)
	}
	return append(dst, '}')
}

// AppendSettled appends account, an object that a Reader returned, with what
// became of its records added: what Ack.Account holds. Fields that this
// release does not know stay.
func AppendSettled(dst, account []byte, delivered, rejected, dropped int64) []byte {
	dst = append(dst, '{')
	start := len(dst)
	for name, value := range members(account) {
		switch string(name) {
		case "delivered", "rejected", "dropped":
			continue
		}
		dst = appendMember(dst, start, name, value)
	}
	from := len(dst)
	dst = append(appendCounts(dst, delivered, rejected, dropped), '}')
	if from == start { // nothing before the comma
		dst = append(dst[:from], dst[from+1:]...)
	}
	return dst
}

// appendMember appends a member to the object whose members begin at start.
func appendMember(dst []byte, start int, name, value []byte) []byte {
	if len(dst) > start {
		dst = append(dst, ',')
	}
	dst = append(AppendString(dst, name), ':')
	return appendCompact(dst, value)
}

// ParseAccount parses the object that Record.Account and Ack.Account hold.
func ParseAccount(b []byte) (Account, error) {
	var a struct {
		Account
		Delivered *int64 `json:"delivered"`
		Rejected  int64  `json:"rejected"`
		Dropped   int64  `json:"dropped"`
	}
	if err := json.Unmarshal(b, &a); err != nil {
		return Account{}, fmt.Errorf("parse account: %.200v", err)
	}
	if a.Delivered != nil {
		a.Account.Settled = true
		a.Account.Delivered, a.Account.Rejected, a.Account.Dropped = *a.Delivered, a.Rejected, a.Dropped
	}
	return a.Account, nil
}
