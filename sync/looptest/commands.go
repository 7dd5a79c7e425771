package looptest

import (
	"fmt"
	"strings"
	"syscall"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"kube-vmap/model"
	"kube-vmap/nft"
	"kube-vmap/nft/kernel/kerneltest"
)

// command is a command of a script.
type command struct {
	args int // minimum
	run  func(*script, []string)
}

// commands are explained in the package's comment.
var commands = map[string]command{
	"service": {2, (*script).setService},
	"slice":   {3, (*script).setSlice},
	"node":    {0, (*script).setNode},
	"cidrs":   {0, (*script).setCIDRs},
	"delete":  {2, (*script).delete},
	"burst":   {0, func(s *script, _ []string) { s.sendBurst() }},

	"start": {0, func(s *script, _ []string) { s.start() }},
	"stop":  {0, func(s *script, _ []string) { s.require(s.stop()) }},
	"ready": {1, (*script).ready},
	"wait":  {1, func(s *script, args []string) { s.wait(s.duration(args[0])) }},

	"hold":    {0, func(s *script, _ []string) { s.meter.hold() }},
	"release": {0, (*script).release},
	"refuse":  {2, (*script).refuse},
	"accept":  {1, func(s *script, args []string) { s.faulty.Refuse(namespace+"/"+args[0], 0, 0) }},
	"faults":  {1, (*script).faults},
	"clear":   {0, func(s *script, _ []string) { s.faulty.ClearFaults() }},
	"damage":  {2, func(s *script, args []string) { s.require(s.damage(args[0], args[1])) }},
	"disturb": {0, func(s *script, _ []string) { s.meter.foreign.Add(1) }},

	"installed": {1, (*script).installed},
	"snapshot":  {1, func(s *script, args []string) { s.compare(args[0], describeSnapshot(s.snapshot())) }},
	"correct":   {1, (*script).correct},
	"batches":   {1, func(s *script, args []string) { s.expectNumber(args[0], int(s.meter.batches.Swap(0))) }},
	"reads":     {1, func(s *script, args []string) { s.expectNumber(args[0], int(s.meter.reads.Swap(0))) }},
	"logged": {2, func(s *script, args []string) {
		s.expectNumber(args[0], strings.Count(s.log.String(), strings.Join(args[1:], " ")))
	}},
}

func (s *script) ready(args []string) {
	if got := s.snapshot().Ready; got != (args[0] == "yes") {
		s.fail("it is %t", got)
	}
}

func (s *script) release([]string) {
	s.meter.release()
	synctest.Wait()
}

func (s *script) refuse(args []string) {
	times := 0
	if len(args) > 2 {
		times = s.number(args[2])
	}
	errno := syscall.Errno(1)
	for ; unix.ErrnoName(errno) != args[1]; errno++ {
		if errno == 200 {
			s.fail("unknown errno %q", args[1])
		}
	}
	s.faulty.Refuse(namespace+"/"+args[0], errno, times)
}

// faultNames are the names of faults.
var faultNames = map[string]kerneltest.Fault{
	"refused": kerneltest.FaultRefused, "denied": kerneltest.FaultDenied, "not-sent": kerneltest.FaultNotSent,
	"no-answer": kerneltest.FaultNoAnswer, "read": kerneltest.FaultRead,
}

func (s *script) faults(args []string) {
	fault, known := faultNames[args[0]]
	if !known {
		s.fail("unknown fault")
	}
	n := 1
	if len(args) > 1 {
		n = s.number(args[1])
	}
	s.faulty.Fail(fault, n)
}

// damage changes our tables as another program might.
func (r *rig) damage(how, what string) error {
	var b nft.Batch
	switch how {
	case "delete":
		for _, f := range model.Families {
			if what == "tables" || what == f.String() {
				b = append(b, nft.DeleteTable{Family: f})
			}
		}
	case "flush":
		b = nft.Batch{nft.FlushChain{Family: model.IPv4, Name: what}}
	case "empty":
		have, err := r.kernel.Read()
		if err != nil || have[model.IPv4] == nil { // deleted before
			return err
		}
		id, known := nft.SetNamed(model.IPv4, what)
		if !known {
			return fmt.Errorf("unknown set %q", what)
		}
		b = nft.Batch{nft.DeleteElements{Set: id, Elements: have[model.IPv4].Sets[what].Elements}}
	default:
		return fmt.Errorf("unknown damage %q", how)
	}
	_, err := r.kernel.Apply(b)
	r.meter.foreign.Add(1)
	return err
}

func (s *script) installed(args []string) {
	have, err := s.kernel.Read()
	s.require(err)
	s.compare(args[0], describeTables(have))
}

func (s *script) correct(args []string) {
	diff, err := s.diff()
	s.require(err)
	if (args[0] == "yes") != (diff == "") {
		s.fail("-want +got\n%s", diff)
	}
}

// expectNumber compares with a number N, or with a range N-M.
func (s *script) expectNumber(want string, got int) {
	least, most, isRange := strings.Cut(want, "-")
	if !isRange {
		most = least
	}
	if got < s.number(least) || got > s.number(most) {
		s.fail("it is %d", got)
	}
}
