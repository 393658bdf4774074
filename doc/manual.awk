# Makes the manual page: awk -v cistron=PROGRAM -v version=VERSION -f doc/manual.awk doc/cistron.1.in
# After the line `.SS COMMAND` comes the usage, and in place of the line `.\" options COMMAND` come the options, both as
# `cistron COMMAND --help` prints them: "  -o, --output FILE         help", where help begins in column 30.
function roff(text)
{
    gsub(/\\/, "\\e", text)
    gsub(/--/, "\\-\\-", text)
    return text ~ /^['.]/ ? "\\&" text : text
}

function help_of(command)
{
    return "'" cistron "' " command " --help"
}

function no_break(words)
{
    gsub(/ /, "\\~", words)
    return words
}

function print_usage(command, line, usage)
{
    usage = ""
    while ((help_of(command) | getline line) > 0 && line != "")
        usage = usage line
    close(help_of(command))
    if (sub(/^usage: /, "", usage) == 0)
        exit failed = 1
    gsub(/ +/, " ", usage)
    gsub(/-/, "\\-", usage)
    while (match(usage, /\[[^]]* [^]]*\]/)) # an option and its value stay together
        usage = substr(usage, 1, RSTART - 1) no_break(substr(usage, RSTART, RLENGTH)) substr(usage, RSTART + RLENGTH)
    printf ".HP 8\n.nh\n%s\n.hy\n.PP\n", usage
}

function print_form(form, words)
{
    gsub(/-/, "\\-", form)
    words = match(form, / [A-Z][^ ]*$/) ? " \\fI" substr(form, RSTART + 1) "\\fR" : ""
    printf ".TP\n\\fB%s\\fR%s\n", words != "" ? substr(form, 1, RSTART - 1) : form, words
}

function print_options(command, line, form, text)
{
    while ((help_of(command) | getline line) > 0) {
        if (line ~ /^  (-.,|   ) --/) {
            form = substr(line, 3, 26)
            text = substr(line, 30)
            if (substr(line, 29, 1) != " " && length(line) > 28) { # a long form has a line of its own
                form = substr(line, 3)
                text = ""
            }
            gsub(/^ +| +$/, "", form)
            print_form(form)
        } else if (form != "") {
            text = substr(line, 30)
        }
        if (text != "")
            print roff(text)
    }
    close(help_of(command))
    if (form == "")
        exit failed = 1
}

/^\.\\" options / {
    print_options($3)
    next
}

/^\.TH / { sub(/VERSION/, version) }

{ print }

/^\.SS [a-z]/ && commands { print_usage($2) }

/^\.SH/ { commands = $2 == "COMMANDS" }

END { exit failed }
