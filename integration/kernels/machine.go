package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// machine is a virtual machine for one kernel.
type machine struct {
	platform
	kernel string // the folder of vmlinuz and modules
	disk   disk
	dir    string // of other files of the machine
	flags  string // for every kube-vmap
}

// qemu are the arguments for every machine. It does not use KVM, so that it runs
// everywhere. It has one processor: with several, a waiting one would use up the virtual
// clock.
var qemu = []string{
	"-accel", "tcg", "-icount", "shift=0,sleep=off", "-smp", "1", "-m", "3072",
	"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
}

// commandLine is the kernel's command line on every machine: a panic ends it.
const commandLine = "loglevel=5 panic=-1 oops=panic nokaslr mitigations=off"

var (
	errHung     = errors.New("the machine did not finish its suites in time")
	errDied     = errors.New("the machine ended before its suites")
	errComplain = errors.New("the kernel reports a bug or warning")
)

// limit is how long a machine may take.
const limit = 90 * time.Minute

// endMark begins the last line that the machine says, when it came to the end; the number of suites
// that failed follows.
const endMark = "suites that failed: "

// complaint matches messages of the kernel about its own faults. Not every warning is
// one: those that are follow a "cut here" line.
var complaint = regexp.MustCompile(`\[ cut here \]|BUG:|WARNING: CPU|Oops:|Call Trace:|Kernel panic|` +
	`general protection fault|detected stalls|self-detected stall|blocked for more than|waiting for \S+ to become free`)

// run boots the machine, prints the output of its tests, and waits for its end.
func (m machine) run(ctx context.Context, chosen []suite) error {
	archive, console := filepath.Join(m.dir, "archive"), filepath.Join(m.dir, "console")
	modules, err := m.disk.addModules(m.kernel)
	if err != nil {
		return err
	}
	if err := errors.Join(m.disk.addPlan(m, modules, chosen), m.disk.pack(archive)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errHung)
	defer cancel()
	cmd := exec.CommandContext(ctx, m.qemu, slices.Concat(qemu, m.args, []string{
		"-kernel", filepath.Join(m.kernel, "vmlinuz"), "-initrd", archive, "-append", commandLine + " " + m.commandLine,
		"-serial", "file:" + console, "-chardev", "stdio,id=talk,signal=off", m.talkOption, m.talkValue,
	})...)
	cmd.Stderr, cmd.WaitDelay = os.Stderr, time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("boot: %w", err)
	}
	err = relay(os.Stdout, out)
	if e := cmd.Wait(); ctx.Err() != nil {
		err = context.Cause(ctx)
	} else {
		err = errors.Join(err, e)
	}
	return withConsole(err, console)
}

// relay prints the output of the tests, and returns an error unless all suites passed.
func relay(to io.Writer, from io.Reader) error {
	lines, failed := bufio.NewReader(from), errDied
	for {
		line, err := lines.ReadString('\n')
		line = strings.TrimRight(line, "\r\n")
		if end, ok := strings.CutPrefix(line, endMark); ok {
			failed = suitesFailed(end)
		} else if line != "" || err == nil {
			_, _ = fmt.Fprintln(to, line)
		}
		if err != nil {
			return failed
		}
	}
}

// suitesFailed returns the error for the machine's last line.
func suitesFailed(count string) error {
	if n, err := strconv.Atoi(count); err != nil || n > 0 {
		return fmt.Errorf("%s suites failed", count)
	}
	return nil
}

// withConsole adds the kernel's messages to an error, or returns an error if the kernel
// reports a fault.
func withConsole(err error, console string) error {
	text, e := os.ReadFile(console)
	if e != nil {
		return errors.Join(err, e)
	}
	if complaint.Match(text) {
		err = errors.Join(err, errComplain)
	}
	if errors.Is(err, errHung) || errors.Is(err, errDied) || errors.Is(err, errComplain) {
		return fmt.Errorf("%w; its console:\n%s", err, text)
	}
	return err
}

// platform is what differs between machines of several architectures.
type platform struct {
	suffix      string // of the kernels' folders
	qemu        string
	args        []string
	commandLine string // of the kernel: its console and its clock

	// The second serial line, for the output of tests: an option of qemu, and the device.
	talkOption, talkValue, talk string
}

var platforms = map[string]platform{
	"amd64": {
		qemu: "qemu-system-x86_64",
		// cmpxchg16b is disabled: qemu 7.2 emulates it such that Linux 6.12 crashes if a timer
		// interrupts it.
		args:        []string{"-cpu", "max,cx16=off"},
		commandLine: "console=ttyS0 tsc=reliable clocksource=tsc",
		talkOption:  "-serial", talkValue: "chardev:talk", talk: "/dev/ttyS1",
	},
	"arm64": {
		suffix: "-arm64",
		qemu:   "qemu-system-aarch64",
		// A processor of servers. With "max", qemu would spend time on authenticating pointers.
		args:        []string{"-machine", "virt,gic-version=3", "-cpu", "neoverse-n1"},
		commandLine: "console=ttyAMA0",
		talkOption:  "-device", talkValue: "pci-serial,chardev=talk", talk: "/dev/ttyS0",
	},
}
