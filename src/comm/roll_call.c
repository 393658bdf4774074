#include "comm/roll_call.h"

#include <math.h>

const double roll_call_turn_seconds = 4.0, roll_call_listening = 3.0;

double roll_call_turn(int rank, double each)
{
    return each * (log2(rank + 1.0) + rank / 1024.0);
}

struct comm_traffic roll_call_traffic(int size, int missing, double heard)
{
    const double end = roll_call_turn(missing, roll_call_turn_seconds) + heard;
    int64_t callers = 0;
    for (int r = missing; r < size && roll_call_turn(r, roll_call_turn_seconds) < end; r++)
        callers++;
    const int64_t calls = size - 1, answers = size - missing - 1;
    return (struct comm_traffic){
        .rounds = 2, .messages = calls + answers, .world_messages = callers * (calls + answers)};
}
