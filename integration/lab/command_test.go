package lab_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kube-vmap/integration/lab"
	"kube-vmap/integration/lab/labtest"
)

// childVariable makes the following test the process that is killed.
const childVariable = "LABTEST_CHILD"

func TestCommandsDieWithAKilledProcess(t *testing.T) {
	labtest.Require(t)
	if os.Getenv(childVariable) != "" {
		startAndHang(t)
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	child.Env = append(os.Environ(), childVariable+"=1")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	pid, atoiErr := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || atoiErr != nil {
		t.Fatalf("output of the child: %q, %v", line, err)
	}
	if err := unix.Kill(pid, 0); err != nil {
		t.Fatalf("the command is not running: %v", err)
	}
	if err := errors.Join(child.Process.Kill(), ignoreExit(child.Wait())); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(patience)
	for running(pid) {
		if time.Now().After(deadline) {
			t.Fatalf("process %d outlives the one that started it", pid)
		}
	}
}

// startAndHang runs a command, prints its process id and waits to be killed.
func startAndHang(t *testing.T) {
	h, _, err := lab.Alone()
	if err != nil {
		t.Fatal(err)
	}
	cmd := h.Command(context.Background(), "sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fmt.Println(cmd.Process.Pid)
	t.Fatal(cmd.Wait())
}

func ignoreExit(err error) error {
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil
	}
	return err
}

// running reports whether a process exists and is not a zombie.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}
