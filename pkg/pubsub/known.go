package pubsub

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"

	"sf2loki/pkg/salesforce"
	"sf2loki/pkg/sysexits"
)

// Topic is a topic that an org has.
type Topic struct {
	Name       string
	Monitoring bool   // a stream of real-time event monitoring
	StoredAs   string // the object that keeps its events, if there is one
	Channel    bool   // it repeats the events of other topics
}

const (
	allChanges    = "/data/ChangeEvents"
	channelSuffix = "__chn"
)

// TopicsOf gives the topics that the names of all objects of an org tell of.
func TopicsOf(objects []string) []Topic {
	known := map[string]bool{}
	for _, name := range objects {
		known[name] = true
	}
	var topics []Topic
	changes := false
	for _, name := range objects {
		t := topicOf(name, known)
		if t.Name == "" {
			continue
		}
		changes = changes || strings.HasPrefix(t.Name, "/data/")
		topics = append(topics, t)
	}
	if changes {
		topics = append(topics, Topic{Name: allChanges, Channel: true})
	}
	return topics
}

// topicOf is the topic of an object, if it has one. Of the streams of event
// monitoring the older ones are called <X>EventStream, and kept as <X>Event,
// the newer ones <X>Event, and kept as <X>EventStore.
func topicOf(object string, known map[string]bool) Topic {
	switch {
	case object == "Event" || object == "EventStream" || object == "ChangeEvent" || object == "__e":
		return Topic{} // no X
	case strings.HasSuffix(object, "EventStream"):
		t := Topic{Name: "/event/" + object, Monitoring: true}
		if kept := strings.TrimSuffix(object, "Stream"); known[kept] {
			t.StoredAs = kept
		}
		return t
	case strings.HasSuffix(object, "ChangeEvent"):
		return Topic{Name: "/data/" + object}
	case strings.HasSuffix(object, "Event") && known[object+"Store"]:
		return Topic{Name: "/event/" + object, Monitoring: true, StoredAs: object + "Store"}
	case strings.HasSuffix(object, "__e"):
		return Topic{Name: "/event/" + object}
	}
	return Topic{}
}

// Tooling is what custom channels are asked for by.
type Tooling interface {
	QueryTooling(ctx context.Context, soql string) iter.Seq2[json.RawMessage, error]
}

// Channels lists the custom channels of an org. No object stands for them.
func Channels(ctx context.Context, api Tooling) ([]Topic, error) {
	var topics []Topic
	for raw, err := range api.QueryTooling(ctx, "SELECT DeveloperName, NamespacePrefix, ChannelType FROM PlatformEventChannel ORDER BY DeveloperName") {
		if err != nil {
			return nil, fmt.Errorf("ask which custom channels the org has: %w", err)
		}
		var c struct{ DeveloperName, NamespacePrefix, ChannelType string }
		if err := json.Unmarshal(raw, &c); err != nil {
			return nil, sysexits.Errorf(sysexits.TempFail, "ask which custom channels the org has: %w", err)
		}
		name := strings.TrimSuffix(c.DeveloperName, channelSuffix) + channelSuffix
		if c.NamespacePrefix != "" {
			name = c.NamespacePrefix + "__" + name
		}
		if name = "/" + strings.ToLower(c.ChannelType) + "/" + name; topicName.MatchString(name) && c.DeveloperName != "ChangeEvents" {
			topics = append(topics, Topic{Name: name, Channel: true})
		}
	}
	return topics, nil
}

// refused tells whether err is a right that the user lacks, or something that
// the org does not know.
func refused(err error) bool {
	switch salesforce.KindOf(err) {
	case salesforce.KindPermission, salesforce.KindType, salesforce.KindField, salesforce.KindQuery, salesforce.KindNotFound:
		return true
	}
	return false
}

// MaySubscribe asks of each topic whether it may be read: its error tells why
// not. The other error is of a bus that does not answer.
func (s *Source) MaySubscribe(ctx context.Context, topics []string) ([]error, error) {
	if err := s.dial(); err != nil {
		return nil, err
	}
	defer s.conn.Close()
	if len(topics) == 0 {
		return nil, nil
	}
	first := s.checkTopic(ctx, topics[0])
	if Unanswered(first) {
		return nil, first
	}
	errs := append([]error{first}, s.checkTopics(ctx, topics[1:])...)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return errs, nil
}
