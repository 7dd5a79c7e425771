package looptest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/kerneltest"
	"kube-vmap/sync"
)

// command is a command of a script.
type command struct {
	args int // minimum
	run  func(*script, []string) error
}

// commands are explained in the package's comment.
var commands = map[string]command{
	"service": {2, set(parseService)},
	"slice":   {3, set(parseSlice)},
	"node":    {0, set(parseNode)},
	"cidrs":   {0, set(parseCIDRs)},
	"delete":  {2, set(parseDelete)},
	"burst":   {0, func(s *script, _ []string) error { return s.sendBurst() }},

	"start": {0, func(s *script, _ []string) error { s.start(); return nil }},
	"stop":  {0, func(s *script, _ []string) error { return s.stop() }},
	"ready": {1, (*script).ready},
	"wait":  {1, (*script).pass},

	"hold":    {0, (*script).hold},
	"release": {0, (*script).release},
	"refuse":  {2, (*script).refuse},
	"accept":  {1, (*script).accept},
	"faults":  {1, (*script).faults},
	"clear":   {0, func(s *script, _ []string) error { s.faulty.ClearFaults(); return nil }},
	"damage":  {2, (*script).damage},
	"disturb": {0, func(s *script, _ []string) error { s.meter.disturb(); return nil }},

	"installed": {1, (*script).installed},
	"snapshot":  {1, (*script).snapshot},
	"correct":   {1, (*script).correct},
	"batches":   {1, func(s *script, args []string) error { return expectNumber(args[0], s.meter.take(&s.meter.batches)) }},
	"reads":     {1, func(s *script, args []string) error { return expectNumber(args[0], s.meter.take(&s.meter.reads)) }},
	"logged":    {2, (*script).countLines},
}

// set returns a command that changes an object.
func set(parse func([]string) (sync.Event, error)) func(*script, []string) error {
	return func(s *script, args []string) error {
		e, err := parse(args)
		if err == nil {
			s.set(e)
		}
		return err
	}
}

func (s *script) ready(args []string) error {
	if s.loop == nil {
		return errNoLoop
	}
	got := "no"
	select {
	case <-s.loop.Ready():
		got = "yes"
	default:
	}
	return expect(args[0], got)
}

func (s *script) pass(args []string) error {
	d, err := time.ParseDuration(args[0])
	if err == nil {
		s.wait(d)
	}
	return err
}

func (s *script) hold([]string) error {
	if !s.meter.hold() {
		return errors.New("batches are held already")
	}
	return nil
}

func (s *script) release([]string) error {
	if !s.meter.release() {
		return errors.New("no batches are held")
	}
	synctest.Wait()
	return nil
}

func (s *script) refuse(args []string) error {
	times := 0
	if len(args) > 2 {
		var err error
		if times, err = strconv.Atoi(args[2]); err != nil {
			return err
		}
	}
	for errno := syscall.Errno(1); errno < 200; errno++ {
		if unix.ErrnoName(errno) == args[1] {
			s.faulty.Refuse(namespace+"/"+args[0], errno, times)
			return nil
		}
	}
	return fmt.Errorf("unknown errno %q", args[1])
}

func (s *script) accept(args []string) error {
	s.faulty.Refuse(namespace+"/"+args[0], 0, 0)
	return nil
}

// faultNames are the names of faults.
var faultNames = map[string]kerneltest.Fault{
	"refused": kerneltest.FaultRefused, "denied": kerneltest.FaultDenied, "not-sent": kerneltest.FaultNotSent,
	"no-answer": kerneltest.FaultNoAnswer, "read": kerneltest.FaultRead,
}

func (s *script) faults(args []string) error {
	fault, known := faultNames[args[0]]
	if !known {
		return fmt.Errorf("unknown fault %q", args[0])
	}
	n := 1
	if len(args) > 1 {
		var err error
		if n, err = strconv.Atoi(args[1]); err != nil {
			return err
		}
	}
	s.faulty.Fail(fault, n)
	return nil
}

// damage changes our tables as another program might.
func (s *script) damage(args []string) error {
	var b nft.Batch
	switch args[0] {
	case "delete":
		for _, f := range model.Families {
			b = append(b, nft.DeleteTable{Family: f})
		}
	case "flush":
		b = nft.Batch{nft.FlushChain{Family: model.IPv4, Name: args[1]}}
	case "empty":
		have, err := s.kernel.Read()
		if err != nil {
			return err
		}
		id, known := nft.SetNamed(model.IPv4, args[1])
		if !known {
			return fmt.Errorf("unknown set %q", args[1])
		}
		if have[model.IPv4] == nil {
			return nil // deleted before
		}
		b = nft.Batch{nft.DeleteElements{Set: id, Elements: have[model.IPv4].Sets[args[1]].Elements}}
	default:
		return fmt.Errorf("unknown damage %q", args[0])
	}
	_, err := s.kernel.Apply(b)
	s.meter.disturb()
	return err
}

func (s *script) installed(args []string) error {
	have, err := s.kernel.Read()
	if err != nil {
		return err
	}
	return s.compare(args[0], describeTables(have))
}

func (s *script) correct(args []string) error {
	diff, err := s.rig.diff()
	if err != nil {
		return err
	}
	got := "yes"
	if diff != "" {
		got = "no"
	}
	if err := expect(args[0], got); err != nil {
		return fmt.Errorf("%w; -want +got\n%s", err, diff)
	}
	return nil
}

// countLines counts lines of the log.
func (s *script) countLines(args []string) error {
	text, n := strings.Join(args[1:], " "), 0
	for line := range strings.Lines(s.log.String()) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return expectNumber(args[0], n)
}

// expectNumber compares with a number N, or with a range N-M.
func expectNumber(want string, got int) error {
	least, most, isRange := strings.Cut(want, "-")
	if !isRange {
		return expect(want, strconv.Itoa(got))
	}
	from, err := strconv.Atoi(least)
	to, err2 := strconv.Atoi(most)
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	if got < from || got > to {
		return fmt.Errorf("it is %d", got)
	}
	return nil
}

func expect(want, got string) error {
	if want != got {
		return fmt.Errorf("it is %s", got)
	}
	return nil
}
