#include "facedet.h"
int main(void){ return facedet_start()+facedet_is_started()+(facedet_run(0,0),0)+(facedet_stop(),0);}
