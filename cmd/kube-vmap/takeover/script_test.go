package takeover

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kube-vmap/nft/foreign/kubeproxy"
)

// TestScripts runs testdata/*.txt, each on a node with kube-proxy's rules and with the ClusterIPs 1
// and 2 of Services in two namespaces. A line is one of these, and what follows # is a comment.
//
//	probation DURATION                     of processes that start later; the default is 10m
//	start [unready]                        starts a process; unready: its first sync does not end
//	stop | kill                            ends the process in order, or without that
//	wait DURATION
//	unhealthy                              changes do not reach the kernel from now on
//	refuse N ...                           ClusterIPs do not answer from now on
//	lose TEXT|none                         packets that kube-proxy's rules delivered are lost
//	other|legacy TEXT|none                 a proxy that runs, and rules of iptables-legacy
//	unreadable ports|legacy|nothing
//	rules suspended|resumed|change|gone|restored
//	suspension|removal fails|works         when a family of the rules is removed
//	stored STATE                           by an earlier process; see expect
//
//	expect state STATE                     as the metric names it
//	expect rules kept|removed
//	expect rules suspended|resumed N times
//	expect failure|ended|problem|not-ready TEXT|none
//	expect logged N TEXT
//	expect yielded yes|no
//	expect stored nothing|removing|returned|probation DURATION [starts N]
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(err, "no scripts")
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{fake: newFake(t, "default", "a"), probation: 10 * time.Minute, end: func() {}}
				defer func() { s.end() }()
				for i, line := range strings.Split(string(text), "\n") {
					line, _, _ = strings.Cut(line, "#")
					if line = strings.TrimSpace(line); line == "" {
						continue
					}
					if err := s.do(line); err != nil {
						t.Errorf("%s:%d: %s: %v", file, i+1, line, err)
					}
				}
			})
		})
	}
}

// A script is a node and the process that runs on it.
type script struct {
	*fake
	probation time.Duration
	process   *Takeover
	end       func() // waits for the process
	failure   error  // with which a process ended that must return the node
	ended     error  // with which another one ended
	yielded   bool
}

func (s *script) do(line string) error {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "start":
		s.start(rest != "unready")
		return nil
	case "kill":
		s.end()
		return nil
	case "stop":
		s.end()
		s.process.Stopped()
		return nil
	case "wait":
		d, err := time.ParseDuration(rest)
		<-time.After(d)
		synctest.Wait()
		return err
	case "expect":
		return s.expect(rest)
	}
	defer s.lock()()
	return s.change(word, rest)
}

// start starts a process like the daemon.
func (s *script) start(ready bool) {
	s.process, s.failure, s.ended = s.takeover(s.probation), nil, nil
	ctx, cancel := context.WithCancel(s.t.Context())
	done := make(chan struct{})
	s.end = func() { cancel(); <-done }
	go func() {
		defer close(done)
		p := s.proxy()
		if !ready {
			p.Ready = nil
		}
		err := s.process.Start()
		if err == nil {
			err = s.process.Run(ctx, p)
		}
		var failure *FailedError
		if s.ended = err; errors.As(err, &failure) {
			s.failure = err
			if failure.Returned {
				s.ended = s.process.Stay(ctx, failure, func() { s.yielded = true })
			}
		}
	}()
	synctest.Wait()
}

func (s *script) change(word, rest string) error {
	text, failure := strings.TrimSuffix(rest, "none"), errors.New("refused")
	if rest == "works" {
		failure = nil
	}
	switch word + " " + rest {
	case "rules suspended", "rules resumed":
		s.setSuspended(rest == "suspended")
		return nil
	case "rules change":
		s.found.Content++
		return nil
	case "rules gone":
		s.found.Parts = nil
		return nil
	case "rules restored":
		s.found.Parts = []kubeproxy.Part{{Table: "nat", Chain: "KUBE-SERVICES"}}
		return nil
	}
	var err error
	switch word {
	case "probation":
		s.probation, err = time.ParseDuration(rest)
	case "unhealthy":
		s.unhealthy = true
	case "refuse":
		for n := range strings.FieldsSeq(rest) {
			i, e := strconv.Atoi(n)
			s.refusing[clusterIP(i)], err = true, e
		}
	case "lose":
		s.lostPackets = text
	case "other":
		s.otherWhy = text
	case "legacy":
		s.legacyWhy = text
	case "unreadable":
		s.otherErr, s.legacyErr = nil, nil
		switch rest {
		case "ports":
			s.otherErr = errors.New("cannot read the ports")
		case "legacy":
			s.legacyErr = errors.New("cannot read iptables-legacy")
		}
	case "suspension":
		s.suspendErr = failure
	case "removal":
		s.removeErr = failure
	case "stored":
		s.state, err = parseStored(rest)
	default:
		err = errors.New("unknown")
	}
	return err
}

func parseStored(text string) (out storedState, err error) {
	switch words := strings.Fields(text); words[0] {
	case "removing":
		out.removing = true
	case "returned":
		out.returned = "a time reason=a reason"
	case "probation":
		var d time.Duration
		d, err = time.ParseDuration(words[1])
		out.until = time.Now().Add(d)
		if len(words) > 2 {
			out.starts, err = strconv.Atoi(words[3])
		}
	}
	return out, err
}

func (s *script) expect(what string) error {
	defer s.lock()()
	word, want, _ := strings.Cut(what, " ")
	contains := func(got string) error {
		if want == "none" && got != "" || want != "none" && !strings.Contains(got, want) {
			return fmt.Errorf("got %q", got)
		}
		return nil
	}
	equal := func(got, want any) error {
		if got != want {
			return fmt.Errorf("got %v; log:\n%s", got, &s.log)
		}
		return nil
	}
	switch word {
	case "state":
		return equal(s.process.State(), want)
	case "rules":
		if want == "kept" || want == "removed" {
			return equal(s.removed, want == "removed")
		}
		return equal(fmt.Sprintf("%s %d times", want[:strings.IndexByte(want, ' ')],
			map[bool]int{true: s.suspended, false: s.resumed}[strings.HasPrefix(want, "suspended")]), want)
	case "failure":
		return contains(errorText(s.failure))
	case "ended":
		return contains(errorText(s.ended))
	case "problem":
		var text string
		for _, p := range s.process.Problems() {
			text += p.Text
		}
		return contains(text)
	case "not-ready":
		return contains(s.process.NotReady())
	case "logged":
		n, text, _ := strings.Cut(want, " ")
		return equal(strconv.Itoa(strings.Count(s.log.String(), text)), n)
	case "yielded":
		return equal(s.yielded, want == "yes")
	case "stored":
		stored, err := parseStored(want)
		return errors.Join(err, equal(s.state, stored))
	}
	return errors.New("unknown")
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
