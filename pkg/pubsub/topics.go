package pubsub

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"

	"sf2loki/pkg/fnmatch"
	"sf2loki/pkg/pubsub/eventbus"
	"sf2loki/pkg/sysexits"
)

// TopicList is what is to be read: topics by name, and patterns for those that
// are discovered.
type TopicList struct {
	Names   []string // "/event/LoginEventStream", or a pattern; "*": all event streams of monitoring
	Include []string // patterns: of the discovered ones only these
	Exclude []string // patterns: of the discovered ones not these
}

// everything is the pattern for all streams of real-time event monitoring.
const everything = "*"

var topicName = regexp.MustCompile(`^/(event|data)/[A-Za-z][A-Za-z0-9_]{0,79}$`)

// Check refuses what can be no topic and no pattern, before anything is asked.
func (l TopicList) Check() error {
	if len(l.Names) == 0 {
		return sysexits.Errorf(sysexits.Usage, "no topic: give --topic /event/NAME, or '*' for all event streams")
	}
	for _, p := range slices.Concat(l.patterns(), l.Include, l.Exclude) {
		if _, err := fnmatch.Compile(p); err != nil {
			return sysexits.Wrap(sysexits.Usage, err)
		}
	}
	for _, name := range l.explicit() {
		if !topicName.MatchString(name) {
			return sysexits.WithHint(sysexits.Errorf(sysexits.Usage, "topic %q: a topic is /event/NAME or /data/NAME", name), suggest(name))
		}
		if matchAny(l.Exclude, name) {
			return sysexits.Errorf(sysexits.Usage, "topic %q is both named and excluded", name)
		}
	}
	if len(l.Include) > 0 && len(l.patterns()) == 0 {
		return sysexits.Errorf(sysexits.Usage, "--include chooses among what is discovered: give --topic '*' too")
	}
	return nil
}

func suggest(name string) string {
	base := name[strings.LastIndexByte(name, '/')+1:]
	switch {
	case base == "" || !topicName.MatchString("/event/"+base):
		return ""
	case strings.HasSuffix(base, "ChangeEvent") || base == "ChangeEvents":
		return "did you mean /data/" + base + "?"
	}
	return "did you mean /event/" + base + "?"
}

// Wild reports whether topics must be discovered.
func (l TopicList) Wild() bool { return len(l.patterns()) > 0 }

func (l TopicList) patterns() []string { return l.sort(true) }

// explicit are the topics that are named outright.
func (l TopicList) explicit() []string { return l.sort(false) }

func (l TopicList) sort(patterns bool) []string {
	var out []string
	for _, name := range l.Names {
		if fnmatch.IsPattern(name) == patterns && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

func matchAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		m, err := fnmatch.Compile(p)
		return err == nil && m.Match(name)
	})
}

// choose picks the topics to read from those that the org has.
func (l TopicList) choose(topics []Topic) []string {
	var out []string
	for _, t := range topics {
		if slices.Contains(out, t.Name) {
			continue
		}
		wanted := slices.ContainsFunc(l.patterns(), func(p string) bool {
			if p == everything {
				return t.Monitoring
			}
			return (!t.Channel || forChannels(p)) && matchAny([]string{p}, t.Name)
		})
		if wanted && (len(l.Include) == 0 || matchAny(l.Include, t.Name)) && !matchAny(l.Exclude, t.Name) {
			out = append(out, t.Name)
		}
	}
	slices.Sort(out)
	return out
}

// forChannels tells whether a pattern is for custom channels. Others do not find
// them, as they would bring events twice.
func forChannels(pattern string) bool { return strings.HasSuffix(pattern, channelSuffix) }

// eventType is the label of a topic's events; severally tells that events of
// several types come on it, each of which says itself what it is.
func eventType(topic string) (name string, severally bool) {
	name = topic[strings.LastIndexByte(topic, '/')+1:]
	return name, topic == allChanges || strings.HasSuffix(name, channelSuffix)
}

// discover asks the org which topics there are.
func (s *Source) discover(ctx context.Context) ([]string, error) {
	if !s.cfg.Topics.Wild() {
		return nil, nil
	}
	topics, err := s.listTopics(ctx)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(s.cfg.Topics.patterns(), forChannels) {
		channels, err := Channels(ctx, s.cfg.API)
		switch {
		case err == nil:
			topics = append(topics, channels...)
		case refused(err):
			s.log.Info("custom channels cannot be listed: those that are named can be read", "err", err)
		default:
			return nil, err
		}
	}
	return s.cfg.Topics.choose(topics), nil
}

// listTopics asks for the topics of the org's objects.
func (s *Source) listTopics(ctx context.Context) ([]Topic, error) {
	body, err := s.cfg.API.Get(ctx, "sobjects/")
	if err != nil {
		return nil, fmt.Errorf("ask which objects the org has: %w", err)
	}
	var list struct{ SObjects []struct{ Name string } }
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, sysexits.Errorf(sysexits.TempFail, "ask which objects the org has: %w", err)
	}
	names := make([]string, len(list.SObjects))
	for i, o := range list.SObjects {
		names[i] = o.Name
	}
	return TopicsOf(names), nil
}

// maxTopics keeps the streams of a connection, and the calls beside them,
// below the 1,000 that Salesforce allows.
const maxTopics = 900

// firstTopics finds the topics of the run's start and proves that each may be
// read. A named one that may not is an error, a discovered one is left out.
func (s *Source) firstTopics(ctx context.Context) ([]string, error) {
	explicit := s.cfg.Topics.explicit()
	found, err := s.discover(ctx)
	if err != nil {
		if len(explicit) == 0 || ctx.Err() != nil {
			return nil, err
		}
		s.log.Error("topics could not be discovered, those that are named are read", "err", err)
	}
	topics := slices.Clone(explicit)
	for _, t := range found {
		if !slices.Contains(topics, t) {
			topics = append(topics, t)
		}
	}
	if len(topics) > maxTopics {
		return nil, sysexits.Errorf(sysexits.Config, "%d topics are more than one connection carries: name fewer, or run several processes", len(topics))
	}
	refused := s.checkTopics(ctx, topics)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if len(topics) > 0 && !slices.ContainsFunc(refused, func(err error) bool { return !Unanswered(err) }) {
		return nil, refused[0] // the bus is not there
	}
	kept := topics[:0]
	for i, topic := range topics {
		switch {
		case refused[i] == nil:
			kept = append(kept, topic)
		case i < len(explicit):
			return nil, refused[i]
		case Unanswered(refused[i]):
			s.log.Warn("whether the topic may be read is not known yet", "topic", topic, "err", refused[i])
			kept = append(kept, topic)
		default:
			s.log.Warn("topic left out", "topic", topic, "err", refused[i])
		}
	}
	if len(kept) == 0 {
		hint := "sf-pull discover --kind topic shows what the org has"
		if slices.Contains(s.cfg.Topics.Names, everything) {
			hint = hintLicence
		}
		return nil, sysexits.WithHint(sysexits.Errorf(sysexits.Config, "no topic of this org fits %q", s.cfg.Topics.Names), hint)
	}
	s.warnTwice(kept)
	return kept, nil
}

// warnTwice tells when a channel of all changes stands beside one of some.
func (s *Source) warnTwice(topics []string) {
	if !slices.Contains(topics, allChanges) {
		return
	}
	for _, t := range topics {
		if strings.HasPrefix(t, "/data/") && strings.HasSuffix(t, "ChangeEvent") {
			s.log.Warn("events come twice, on /data/ChangeEvents too", "topic", t)
		}
	}
}

// Unanswered tells an error of a bus that is not there, or has no time, from
// one that refuses a topic.
func Unanswered(err error) bool {
	code := sysexits.Of(err)
	return code == sysexits.Unavailable || code == sysexits.TempFail
}

// checkTopics checks several topics at a time.
func (s *Source) checkTopics(ctx context.Context, topics []string) []error {
	errs := make([]error, len(topics))
	turns := make(chan struct{}, 8)
	var tasks sync.WaitGroup
	for i, topic := range topics {
		turns <- struct{}{}
		tasks.Go(func() {
			errs[i] = s.checkTopic(ctx, topic)
			<-turns
		})
	}
	tasks.Wait()
	return errs
}

// checkTopic asks whether a topic is there and may be read.
func (s *Source) checkTopic(ctx context.Context, topic string) error {
	var info *eventbus.TopicInfo
	f := s.patiently(ctx, s.cfg.Tries, func() *failure {
		return s.call(ctx, func(ctx context.Context, opts ...grpc.CallOption) (err error) {
			info, err = s.bus.GetTopic(ctx, &eventbus.TopicRequest{TopicName: topic}, opts...)
			return err
		})
	})
	switch {
	case f != nil:
		return &topicError{topic, f.fatal()}
	case !info.CanSubscribe:
		v := verdicts["subscription.topic.cannot.subscribe"]
		return &topicError{topic, sysexits.WithHint(sysexits.Errorf(v.exit, "the user may not subscribe to it"), v.hint)}
	}
	return nil
}
