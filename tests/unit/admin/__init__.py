"""The commands that read or change a stopped or running application, over the in-process log."""
