package sobject

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sf2loki/pkg/salesforce"
	"sf2loki/pkg/sysexits"
)

// Object is one object to pull, as a user names it: NAME[:FIELD][,big][,poll=TIME].
type Object struct {
	Name  string
	Field string // its timestamp; empty: by the object
	Big   bool   // known to be a Big Object, which is then not asked
	Poll  time.Duration
}

// ParseObjects reads one value of the flag, which may name several objects.
// duration reads the TIME of poll=TIME.
func ParseObjects(text string, duration func(string) (time.Duration, error)) ([]Object, error) {
	var list []Object
	for i, part := range strings.Split(text, ",") {
		part = strings.TrimSpace(part)
		poll, isPoll := strings.CutPrefix(part, "poll=")
		switch {
		case i > 0 && part == "big":
			list[len(list)-1].Big = true
		case i > 0 && isPoll:
			d, err := duration(poll)
			if err == nil && d <= 0 {
				err = fmt.Errorf("it must be more than 0")
			}
			if err != nil {
				return nil, sysexits.Errorf(sysexits.Usage, "object %q: poll: %w", text, err)
			}
			list[len(list)-1].Poll = d
		default:
			name, field, colon := strings.Cut(part, ":")
			if !salesforce.IsName(name) || colon && !salesforce.IsName(field) {
				return nil, sysexits.Errorf(sysexits.Usage, "object %q: want NAME[:FIELD][,big][,poll=TIME], of letters, digits and underscores", part)
			}
			list = append(list, Object{Name: name, Field: field})
		}
	}
	return list, nil
}

// CheckObjects refuses what does not go together, before anything is asked.
func CheckObjects(list []Object) error {
	if len(list) == 0 {
		return sysexits.Errorf(sysexits.Usage, "no object: give --object NAME")
	}
	seen := map[string]bool{}
	for _, o := range list {
		name := strings.ToLower(o.Name)
		if seen[name] {
			return sysexits.Errorf(sysexits.Usage, "object %q is named twice: it has one position", o.Name)
		}
		seen[name] = true
		if name == "eventlogfile" {
			return sysexits.Errorf(sysexits.Usage, "object %q lists files without their rows: sf-pull elf pulls these", o.Name)
		}
	}
	return nil
}

// field is the timestamp that an object is pulled by, as far as its name tells.
func (o Object) field() string {
	switch {
	case o.Field != "":
		return o.Field
	case strings.HasSuffix(o.Name, "EventLog"):
		return "Timestamp"
	case strings.EqualFold(o.Name, "LoginHistory"):
		return "LoginTime"
	case strings.EqualFold(o.Name, "Event"): // of the calendar
		return "CreatedDate"
	case strings.HasSuffix(o.Name, "Event"), strings.HasSuffix(o.Name, "EventStore"):
		return "EventDate"
	}
	return "CreatedDate"
}

// keeps is how long Salesforce is known to keep the rows of an object; 0: who
// knows.
func (o Object) keeps(big bool) time.Duration {
	const halfYear = 180 * 24 * time.Hour
	switch {
	case strings.HasSuffix(o.Name, "EventLog"):
		return 30 * 24 * time.Hour
	case big, o.Name == "LoginHistory", o.Name == "SetupAuditTrail", strings.HasSuffix(o.Name, "EventStore"):
		return halfYear
	}
	return 0
}

// Facts are what has been found out about an object.
type Facts struct {
	Name      string
	Field     string // that its rows are pulled by
	BigObject bool
}

// Look finds out what an object is, by two calls. An error tells why it cannot
// be pulled.
func Look(ctx context.Context, api API, o Object) (Facts, error) {
	s, err := learn(ctx, api, o)
	if err == nil && !s.big {
		err = s.probe(ctx, api, api.Now().UnixNano())
	}
	if err != nil {
		return Facts{Name: o.Name, Field: o.field(), BigObject: o.Big}, err
	}
	return Facts{Name: s.name, Field: s.field, BigObject: s.big}, nil
}
